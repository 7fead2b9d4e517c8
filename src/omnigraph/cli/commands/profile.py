"""`omnigraph profile list`: the profiles of the operator file, and whether they can be used."""

from __future__ import annotations

import os
from typing import Final

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import PROFILE_VARIABLE, find_server, read_settings
from omnigraph.client.operator_file import OperatorFile, Profile

_TITLES: Final = {
    "name": "profile",
    "scope_kind": "scope",
    "target": "target",
    "default_graph": "graph",
    "active": "active",
    "valid": "valid",
    "error": "error",
}


@command("omnigraph profile list", "omnigraph profile list --json", capability=Capability.LOCAL)
def list_profiles(context: typer.Context, output: RowsOutput) -> None:
    """Show the profiles of the operator file, ~/.omnigraph/config.yaml.

    The variable OMNIGRAPH_PROFILE names the active profile.
    """
    settings = read_settings(context)

    from omnigraph.wire.service import ProfileListOutput, ProfileOutput

    profiles = []
    for name, profile in settings.profiles.items():
        kind, address = profile.scope or (None, None)
        error = _problem(profile, settings)
        profiles.append(
            ProfileOutput(
                name=name,
                scope_kind=kind,
                target=address,
                default_graph=profile.default_graph,
                active=name == os.environ.get(PROFILE_VARIABLE),
                valid=error is None,
                error=error,
            )
        )
    rows = [{key: getattr(profile, key) for key in _TITLES} for profile in profiles]
    output.show(lambda: ProfileListOutput(path=str(settings.path), profiles=profiles), _TITLES, rows)


def _problem(profile: Profile, settings: OperatorFile) -> str | None:
    problem = profile.problem()
    if problem is None and profile.server is not None:
        try:
            find_server(profile.server, settings)
        except UsageError as error:
            return error.message
    return problem
