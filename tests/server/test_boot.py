"""What a server needs to start: tokens or `--unauthenticated`, and the state that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.cli.hints import render_hint
from omnigraph.server.auth import TokenTable
from omnigraph.server.boot import TOKEN, TOKENS_FILE, TOKENS_JSON, AccessState, decide_state, read_flag, read_tokens
from omnigraph.server.errors import RequestError
from omnigraph.server.process import is_loopback, parse_bind

STATES = [
    (False, False, False, "tokens_missing"),
    (False, False, True, AccessState.OPEN),
    (False, True, False, "tokens_missing"),
    (False, True, True, "tokens_missing"),
    (True, False, False, AccessState.WRITE),
    (True, False, True, AccessState.WRITE),
    (True, True, False, AccessState.POLICY),
    (True, True, True, AccessState.POLICY),
]


@pytest.mark.parametrize(("has_tokens", "has_policy", "is_unauthenticated", "expected"), STATES)
def test_state(has_tokens: bool, has_policy: bool, is_unauthenticated: bool, expected: AccessState | str) -> None:
    try:
        state: AccessState | str = decide_state(
            has_tokens=has_tokens,
            has_policy=has_policy,
            is_unauthenticated=is_unauthenticated,
            access=AccessState.WRITE,
        )
    except UsageError as error:
        state = error.code
    assert state == expected


def test_the_error_without_tokens_names_what_to_set() -> None:
    with pytest.raises(UsageError) as error:
        decide_state(has_tokens=False, has_policy=False, is_unauthenticated=False, access=AccessState.READ)
    for name in (TOKEN, TOKENS_JSON, TOKENS_FILE, "--unauthenticated"):
        assert name in render_hint(error.value.advice)


def test_tokens_of_all_variables(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"eve": " t3 "}))
    environment = {TOKEN: "t1", TOKENS_JSON: '{"ada": "t2"}', TOKENS_FILE: str(file)}
    assert read_tokens(environment) == {"default": "t1", "ada": "t2", "eve": "t3"}


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({TOKEN: "  "}, "is empty"),
        ({TOKENS_JSON: '{"ada": ""}'}, "is empty"),
        ({TOKENS_JSON: '{" ": "t"}'}, "name of an actor is empty"),
        ({TOKENS_JSON: '{"omnigraph:recovery": "t"}'}, "actor of the system"),
        ({TOKENS_JSON: '{"ada ": "t"}'}, "invalid actor id"),
        ({TOKENS_JSON: '{"ada": "t", "bob": "t"}'}, "token of another actor"),
        ({TOKEN: "t", TOKENS_JSON: '{"default": "u"}'}, "two tokens"),
        ({TOKENS_JSON: "["}, "expected a JSON object"),
        ({TOKENS_JSON: '{"ada": 1}'}, "expected a JSON object"),
        ({TOKENS_FILE: "/does/not/exist"}, "cannot be read"),
    ],
)
def test_invalid_tokens(environment: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as error:
        read_tokens(environment)
    assert error.value.code == "tokens_invalid"


@pytest.mark.parametrize(
    ("value", "expected"), [("", False), ("0", False), ("False", False), ("1", True), ("on", True)]
)
def test_boolean_variables(value: str, expected: bool) -> None:
    assert read_flag({"V": value}, "V") is expected
    assert not read_flag({}, "V")


@pytest.mark.parametrize(
    ("header", "actor"),
    [
        ("Bearer t1", "ada"),
        ("bearer t1", "ada"),
        ("Bearer  t2 ", "bob"),
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic t1", None),
        ("Bearer t", None),
        ("Bearer t1 t2", None),
        ("Bearer T1", None),
        ("t1", None),
    ],
)
def test_authentication(header: str | None, actor: str | None) -> None:
    table = TokenTable.make({"ada": "t1", "bob": "t2"})
    if actor is not None:
        assert table.authenticate(header) == actor
    else:
        with pytest.raises(RequestError):
            table.authenticate(header)


def test_a_table_without_tokens_accepts_nobody() -> None:
    with pytest.raises(RequestError):
        TokenTable.make({}).authenticate("Bearer t")


def test_tokens_are_stored_as_digests() -> None:
    assert "secret" not in repr(TokenTable.make({"ada": "secret"}))


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8080", ("::1", 8080)), ("host:1", ("host", 1))]
)
def test_bind(text: str, expected: tuple[str, int]) -> None:
    assert parse_bind(text) == expected


@pytest.mark.parametrize("text", ["", "8080", "host:", ":80", "host:x", "host:70000"])
def test_invalid_bind(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bind(text)


def test_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.com")
