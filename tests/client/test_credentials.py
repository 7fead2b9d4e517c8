"""Tokens of servers: which one is used, how they are stored, and files that others can read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.client.credentials import credentials_file, delete_token, find_token, save_token
from omnigraph.client.http import Connection


def home(directory: Path, **variables: str) -> dict[str, str]:
    return {"OMNIGRAPH_HOME": str(directory / "home"), **variables}


def test_a_stored_token(tmp_path: Path) -> None:
    environment = home(tmp_path)
    assert find_token("prod", environment) is None
    path = save_token("prod", "a%b = c", environment)
    save_token("dev", "d", environment)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_token("prod", environment) == "a%b = c"
    save_token("prod", "new", environment)
    assert find_token("prod", environment) == "new"
    assert delete_token("prod", environment)
    assert not delete_token("prod", environment)
    assert find_token("prod", environment) is None
    assert find_token("dev", environment) == "d"
    assert [file.name for file in path.parent.iterdir()] == ["credentials"]


def test_the_order_of_sources(tmp_path: Path) -> None:
    environment = home(tmp_path, OMNIGRAPH_BEARER_TOKEN="any")
    assert find_token("my-prod", environment) == "any"
    assert find_token(None, environment) == "any"
    save_token("my-prod", "file", environment)
    assert find_token("my-prod", environment) == "file"
    assert find_token("other", environment) == "any"
    assert find_token(None, environment) == "any"
    assert find_token("my-prod", {**environment, "OMNIGRAPH_TOKEN_MY_PROD": "variable"}) == "variable"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    environment = home(tmp_path)
    path = save_token("prod", "t", environment)
    path.chmod(mode)
    for call in (lambda: find_token("prod", environment), lambda: save_token("a", "b", environment)):
        with pytest.raises(UsageError) as error:
            call()
        assert error.value.code == "credentials_mode"
        assert f"chmod 600 {path}" in error.value.hint


@pytest.mark.parametrize("data", [b"token = x\n", b"[a\n", b"\xff\xfe", b"[a]\ntoken = 1\n[a]\ntoken = 2\n"])
def test_invalid_files(tmp_path: Path, data: bytes) -> None:
    environment = home(tmp_path)
    path = credentials_file(environment)
    path.parent.mkdir()
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError) as error:
        find_token("a", environment)
    assert error.value.code == "credentials_invalid"


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1/prefix", True),
        ("http://[::1]:1", True),
        ("https://example.com", True),
        ("http://example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_a_token_is_not_sent_unencrypted_over_a_network(url: str, is_allowed: bool) -> None:
    assert Connection(url).url == url
    assert Connection(url, "t", is_insecure=True).url == url
    if is_allowed:
        Connection(url, "t")
    else:
        with pytest.raises(UsageError) as error:
            Connection(url, "t")
        assert error.value.code == "token_unencrypted"


@pytest.mark.parametrize("url", ["", "example.com", "ftp://a", "http://", "http://a?x=1", "http://u:p@a", "s3://b/g"])
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(UsageError) as error:
        Connection(url)
    assert error.value.code == "server_unknown"
