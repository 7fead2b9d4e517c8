"""Settings of providers from variables: tables."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.embedding.settings import read_settings

OPENROUTER = "https://openrouter.ai/api/v1"
OPENAI = "https://api.openai.com/v1"
GEMINI = "https://generativelanguage.googleapis.com/v1beta"
OWN = "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"OMNIGRAPH_EMBED_PROVIDER": " "}, None),
        ({"GEMINI_API_KEY": "k"}, None),
        ({"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "k"},
         ("openai-compatible", OPENROUTER, "openai/text-embedding-3-large", "OPENROUTER_API_KEY")),
        ({"OPENAI_API_KEY": "k"}, ("openai-compatible", OPENAI, "text-embedding-3-large", "OPENAI_API_KEY")),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible"},
         ("openai-compatible", OPENROUTER, "openai/text-embedding-3-large", "OPENROUTER_API_KEY")),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, ("gemini", GEMINI, "gemini-embedding-2", "GEMINI_API_KEY")),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, ("mock", "", "", None)),
        ({"OMNIGRAPH_EMBED_BASE_URL": OWN + "/", "OMNIGRAPH_EMBED_MODEL": "m", "OPENAI_API_KEY": "k"},
         ("openai-compatible", OWN, "m", None)),
        ({"OMNIGRAPH_EMBED_BASE_URL": OWN, "OMNIGRAPH_EMBED_MODEL": "m", "OMNIGRAPH_EMBED_API_KEY_ENV": "K"},
         ("openai-compatible", OWN, "m", "K")),
    ],
)  # fmt: skip
def test_provider(environment: dict[str, str], expected: tuple[str, str, str, str | None] | None) -> None:
    settings = read_settings(environment)
    actual = settings and (settings.kind.value, settings.base_url, settings.model, settings.key_variable)
    assert actual == expected


def test_limits() -> None:
    values = {"TIMEOUT_MS": "5", "DEADLINE_MS": "0", "RETRY_ATTEMPTS": "1", "BATCH": "7", "REQUESTS_PER_MINUTE": "60"}
    settings = read_settings(
        {"OMNIGRAPH_EMBED_PROVIDER": "mock"} | {f"OMNIGRAPH_EMBED_{name}": value for name, value in values.items()}
    )
    assert settings is not None
    assert (settings.timeout_seconds, settings.deadline_seconds, settings.attempts) == (0.005, None, 1)
    assert (settings.batch, settings.concurrency, settings.requests_per_minute) == (7, 4, 60)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PROVIDER", "gemni", "did you mean 'gemini'?"),
        ("BATCH", "0", "expected a whole number of at least 1, got '0'"),
        ("TIMEOUT_MS", "1.5", "expected a whole number of at least 1, got '1.5'"),
        ("BASE_URL", "ftp://x", "expected http:// or https://, got 'ftp://x'"),
    ],
)
def test_malformed_values(name: str, value: str, message: str) -> None:
    environment = {"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_MODEL": "m", f"OMNIGRAPH_EMBED_{name}": value}
    with pytest.raises(UsageError) as caught:
        read_settings(environment)
    assert f"OMNIGRAPH_EMBED_{name}" in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://a b:99999/v1", "http://h:99999", "http://h:x/v1", "http://[::1/v1", "http:///v1", "http://a\nb/v1"]
)
def test_a_malformed_base_url_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match="invalid OMNIGRAPH_EMBED_BASE_URL: expected a host") as caught:
        read_settings({"OMNIGRAPH_EMBED_BASE_URL": url, "OMNIGRAPH_EMBED_MODEL": "m"})
    assert caught.value.code == "embedding_settings"


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://user:password@h/v1", "http://my_host"])
def test_base_urls(url: str) -> None:
    settings = read_settings({"OMNIGRAPH_EMBED_BASE_URL": url, "OMNIGRAPH_EMBED_MODEL": "m"})
    assert settings is not None
    assert settings.base_url == url


def test_a_base_url_without_a_model_is_an_error() -> None:
    with pytest.raises(UsageError, match="OMNIGRAPH_EMBED_MODEL is missing") as caught:
        read_settings({"OMNIGRAPH_EMBED_BASE_URL": OWN})
    assert str(caught.value.hint) == "Set OMNIGRAPH_EMBED_MODEL to the name of a model of this server."
