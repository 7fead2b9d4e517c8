"""`omnigraph login` and `logout`: store and delete the token of a server of the operator file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Insecure
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import find_server, read_settings

ServerName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the server in the operator file.", show_default=False)
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="The token. Default: one line of standard input.")
]
NoCheck = Annotated[bool, typer.Option("--no-check", help="Store the token without asking the server about it.")]


@command("omnigraph login prod", 'omnigraph login prod --token "$TOKEN" --no-check', capability=Capability.LOCAL)
def login(
    name: ServerName, *, token: Token = None, no_check: NoCheck = False, insecure: Insecure = False, output: TextOutput
) -> None:
    """Store the token of a server.

    The server must be in the operator file, ~/.omnigraph/config.yaml. The command asks the server
    whose token it is, and stores the token in ~/.omnigraph/credentials, which only you can read.
    """
    server = find_server(name, read_settings(output.context))
    secret = _read_token(output.context) if token is None else token.strip()
    if not secret.isascii() or not secret.isprintable() or not secret or " " in secret:
        raise UsageError(
            "invalid token: expected printable ASCII characters without spaces",
            code="credentials_missing",
            hint="Pass the token as `--token TOKEN`, or as one line of standard input.",
        )

    from omnigraph.client.credentials import save_token
    from omnigraph.wire.service import LoginOutput

    actor = None
    if not no_check:
        from omnigraph.client.http import Connection
        from omnigraph.client.remote import read_whoami

        actor = read_whoami(Connection(server.url, secret, is_insecure=insecure)).actor_id
    path = save_token(name, secret)
    document = LoginOutput(server=name, url=server.url, actor_id=actor, path=str(path))
    identity = f" as {actor}" if actor else ""
    output.show(lambda: document, notices=[f"logged in to {name}{identity}"])


def _read_token(context: typer.Context) -> str:
    """Return one line of standard input; a terminal does not show it."""
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Token: ").strip()
    return sys.stdin.readline().strip()


@command("omnigraph logout prod", capability=Capability.LOCAL)
def logout(name: ServerName, output: TextOutput) -> None:
    """Delete the stored token of a server. Repeating it is not an error."""
    from omnigraph.client.credentials import delete_token
    from omnigraph.wire.service import LogoutOutput

    deleted = delete_token(name)
    text = f"deleted the token of {name}" if deleted else f"no token of {name} is stored"
    output.show(lambda: LogoutOutput(server=name, deleted=deleted), notices=[text])
