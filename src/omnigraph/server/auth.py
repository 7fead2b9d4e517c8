"""Who sent a request: bearer tokens. Pure.

Only digests of tokens are kept. All of them are compared, in constant time, so that the time of an answer says nothing
about a token.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from omnigraph.base.errors import ErrorKind
from omnigraph.server.errors import RequestError

ANONYMOUS: Final = "anonymous"
"""The actor of a server without tokens."""


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The actor of each token, by digest."""

    actors: tuple[tuple[str, bytes], ...]

    @classmethod
    def make(cls, tokens: Mapping[str, str]) -> TokenTable:
        """Return the table for a token per actor."""
        return cls(tuple((actor, _digest(token)) for actor, token in tokens.items()))

    def authenticate(self, authorization: str | None) -> str:
        """Return the actor of an `Authorization` header; raise if there is none."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthorized("the request has no bearer token")
        digest = _digest(token.strip())
        matches = [actor for actor, known_digest in self.actors if hmac.compare_digest(digest, known_digest)]
        if not matches:
            raise _unauthorized("the token is not valid")
        return matches[0]


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _unauthorized(message: str) -> RequestError:
    return RequestError(
        message,
        code="token_invalid",
        kind=ErrorKind.UNAUTHORIZED,
        hint="Send the header `Authorization: Bearer TOKEN`.",
    )
