"""What a server allows, decided before anything is opened: the tokens of the environment, and its state. Pure.

In: environment variables and flags. Out: a token per actor and an `AccessState`, or an error that says what to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from omnigraph.base.actors import find_actor_problem
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, hint

TOKEN: Final = "OMNIGRAPH_SERVER_BEARER_TOKEN"  # the name of a variable
TOKENS_JSON: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
TOKENS_FILE: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
UNAUTHENTICATED: Final = "OMNIGRAPH_UNAUTHENTICATED"
_FALSE: Final = frozenset({"", "0", "false"})


class AccessState(StrEnum):
    """What callers may do: everything without a token; with one, the same for all, or what the policy allows."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    POLICY = "policy"


def read_flag(environment: Mapping[str, str], name: str) -> bool:
    """Return whether a variable is set to something other than nothing, 0 or false."""
    return environment.get(name, "").strip().lower() not in _FALSE


def decide_state(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool, access: AccessState) -> AccessState:
    """Return the state of a server; raise if no request could succeed, or if nothing protects it."""
    if has_tokens:
        return AccessState.POLICY if has_policy else access
    if has_policy:
        raise UsageError(
            "the server has a policy but no tokens: every request would be rejected",
            code="tokens_missing",
            hint=f"Set {TOKENS_FILE} or {TOKENS_JSON}, an object with a token for each actor.",
        )
    if is_unauthenticated:
        return AccessState.OPEN
    raise UsageError(
        "the server has no tokens: anyone who reaches it could read and write",
        code="tokens_missing",
        hint=hint(
            f"Set {TOKEN}, {TOKENS_JSON} or {TOKENS_FILE}, or pass {{}} to allow everything.",
            Argument("unauthenticated"),
        ),
    )


def read_tokens(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the token of each actor; raise if a value is blank, repeated, or of a system actor."""
    pairs: list[tuple[str, str, str]] = []
    if TOKEN in environment:
        pairs.append((TOKEN, "default", environment[TOKEN]))
    if TOKENS_JSON in environment:
        pairs += [(TOKENS_JSON, *pair) for pair in _read_object(environment[TOKENS_JSON].encode(), TOKENS_JSON)]
    if TOKENS_FILE in environment:
        pairs += [(TOKENS_FILE, *pair) for pair in _read_object(_read_file(environment[TOKENS_FILE]), TOKENS_FILE)]
    tokens: dict[str, str] = {}
    for source, actor, token in pairs:
        _require_valid(source, actor, token.strip())
        if actor in tokens:
            raise _invalid(source, f"actor '{actor}' has two tokens")
        if token.strip() in tokens.values():
            raise _invalid(source, f"actor '{actor}' has the token of another actor")
        tokens[actor] = token.strip()
    return tokens


def _require_valid(source: str, actor: str, token: str) -> None:
    if not actor.strip():
        raise _invalid(source, "the name of an actor is empty")
    problem = find_actor_problem(actor)
    if problem is not None:
        raise _invalid(source, problem)
    if not token:
        raise _invalid(source, f"the token of actor '{actor}' is empty")


def _read_object(data: bytes, source: str) -> list[tuple[str, str]]:
    try:
        return list(msgspec.json.decode(data, type=dict[str, str]).items())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _invalid(source, "expected a JSON object with a token for each actor") from error


def _read_file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise _invalid(TOKENS_FILE, f"the file '{name}' cannot be read: {error.strerror}") from error


def _invalid(source: str, reason: str) -> UsageError:
    return UsageError(
        f"invalid {source}: {reason}",
        code="tokens_invalid",
        hint='Set it to an object with a token for each actor, such as {"ada": "…"}.',
    )
