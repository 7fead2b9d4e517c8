"""Which provider creates vectors, and how it is called: settings from environment variables. Pure.

In: the environment. Out: an `EmbeddingSettings`, or None if no provider is configured. The key of a provider is not
part of the settings, only the name of its variable: settings are sent to executors and shown in plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import UsageError

_PREFIX: Final = "OMNIGRAPH_EMBED_"
OPENROUTER_KEY: Final = "OPENROUTER_API_KEY"
OPENAI_KEY: Final = "OPENAI_API_KEY"
GEMINI_KEY: Final = "GEMINI_API_KEY"


class ProviderKind(StrEnum):
    """The protocol of a provider."""

    OPENAI_COMPATIBLE = "openai-compatible"
    GEMINI = "gemini"
    MOCK = "mock"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """A provider and the limits of its calls. `key_variable` names the variable with the key; None sends no key."""

    kind: ProviderKind
    base_url: str
    model: str
    key_variable: str | None
    timeout_seconds: float = 30.0
    deadline_seconds: float | None = 60.0
    attempts: int = 4
    backoff_seconds: float = 0.2
    batch: int = 64
    concurrency: int = 4
    requests_per_minute: int | None = None

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables that may have the key: the server of OpenRouter is the default if no key is set."""
        if self.key_variable == OPENROUTER_KEY and self.base_url == _OPENROUTER.base_url:
            return OPENROUTER_KEY, OPENAI_KEY
        return () if self.key_variable is None else (self.key_variable,)


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The key, server and model of a provider for which nothing else is set."""

    key_variable: str
    base_url: str
    model: str


_OPENROUTER: Final = _Defaults(OPENROUTER_KEY, "https://openrouter.ai/api/v1", "openai/text-embedding-3-large")
_OPENAI: Final = _Defaults(OPENAI_KEY, "https://api.openai.com/v1", "text-embedding-3-large")
_GEMINI: Final = _Defaults(GEMINI_KEY, "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2")


def read_settings(environment: Mapping[str, str]) -> EmbeddingSettings | None:
    """Return the provider that the environment configures, or None; raise if a value is malformed.

    A base URL without `OMNIGRAPH_EMBED_API_KEY_ENV` gets no key, so that no key reaches another host.
    """
    values = {name: value.strip() for name, value in environment.items() if name.startswith(_PREFIX) and value.strip()}
    kind = _read_kind(values)
    base_url = values.get(f"{_PREFIX}BASE_URL")
    if kind is ProviderKind.MOCK:
        return _with_limits(values, ProviderKind.MOCK, "", values.get(f"{_PREFIX}MODEL", ""), None)
    defaults = _choose_defaults(kind, environment)
    if defaults is None and kind is None and base_url is None:
        return None
    defaults = defaults or _OPENROUTER
    key_variable = values.get(f"{_PREFIX}API_KEY_ENV") or (None if base_url else defaults.key_variable)
    model = values.get(f"{_PREFIX}MODEL") or ("" if base_url else defaults.model)
    if not model:
        raise UsageError(
            f"{_PREFIX}MODEL is missing: expected the name of a model, because {_PREFIX}BASE_URL is set",
            code="embedding_settings",
            hint=f"Set {_PREFIX}MODEL to the name of a model of this server.",
        )
    url = (base_url or defaults.base_url).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise _invalid("BASE_URL", f"expected http:// or https://, got '{url}'")
    if not _has_address(url):
        raise _invalid("BASE_URL", "expected a host, a port up to 65535 and no blanks, as in http://127.0.0.1:11434/v1")
    return _with_limits(values, kind or ProviderKind.OPENAI_COMPATIBLE, url, model, key_variable)


def _has_address(url: str) -> bool:
    """Return whether a URL has a host and a valid port. The error does not show the URL: it may have a password."""
    if not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _read_kind(values: Mapping[str, str]) -> ProviderKind | None:
    name = values.get(f"{_PREFIX}PROVIDER")
    if name is None:
        return None
    try:
        return ProviderKind(name)
    except ValueError as error:
        names = [kind.value for kind in ProviderKind]
        raise _invalid("PROVIDER", f"unknown provider '{name}'{did_you_mean(name, names)}", ", ".join(names)) from error


def _choose_defaults(kind: ProviderKind | None, environment: Mapping[str, str]) -> _Defaults | None:
    if kind is ProviderKind.GEMINI:
        return _GEMINI
    for defaults in (_OPENROUTER, _OPENAI):
        if environment.get(defaults.key_variable, "").strip():
            return defaults
    return None


def _with_limits(
    values: Mapping[str, str], kind: ProviderKind, base_url: str, model: str, key_variable: str | None
) -> EmbeddingSettings:
    deadline_ms = _read_number(values, "DEADLINE_MS", 60_000, least=0)
    rate = _read_number(values, "REQUESTS_PER_MINUTE", 0, least=1)
    return EmbeddingSettings(
        kind=kind,
        base_url=base_url,
        model=model,
        key_variable=key_variable,
        timeout_seconds=_read_number(values, "TIMEOUT_MS", 30_000, least=1) / 1000,
        deadline_seconds=deadline_ms / 1000 if deadline_ms else None,
        attempts=_read_number(values, "RETRY_ATTEMPTS", 4, least=1),
        backoff_seconds=_read_number(values, "RETRY_BACKOFF_MS", 200, least=0) / 1000,
        batch=_read_number(values, "BATCH", 64, least=1),
        concurrency=_read_number(values, "CONCURRENCY", 4, least=1),
        requests_per_minute=rate or None,
    )


def _read_number(values: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = values.get(f"{_PREFIX}{name}")
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise _invalid(name, f"expected a whole number of at least {least}, got '{text}'")
    return int(text)


def _invalid(name: str, reason: str, choices: str = "") -> UsageError:
    return UsageError(
        f"invalid {_PREFIX}{name}: {reason}",
        code="embedding_settings",
        hint=f"Set it to one of {choices}." if choices else f"Correct {_PREFIX}{name}, or remove it.",
    )
