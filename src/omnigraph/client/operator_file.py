"""The operator file, `~/.omnigraph/config.yaml`: one person's servers, profiles and defaults. It has no secrets.

In: the text of the file. Out: an `OperatorFile` and warnings about unknown keys. A value of a wrong type is an error
with its path. A profile is checked when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.base.errors import UsageError
from omnigraph.base.yaml_text import read_yaml

OUTPUTS: Final = ("table", "json", "jsonl", "csv", "kv")
_SCOPES: Final = ("server", "cluster", "store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where commands of a profile go: a server by name or address, a cluster, or a store. One of them."""

    server: str | None = None
    cluster: str | None = None
    store: str | None = None
    default_graph: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it names no target."""
        return self.server is None and self.cluster is None and self.store is None

    @property
    def scope(self) -> tuple[str, str] | None:
        """The kind of target and the target; None if there is not exactly one."""
        targets = [(kind, getattr(self, kind)) for kind in _SCOPES if getattr(self, kind) is not None]
        return targets[0] if len(targets) == 1 else None

    def problem(self) -> str | None:
        """Return why the profile cannot be used, or None."""
        if self.scope is None:
            return "expected exactly one of server, cluster and store"
        if self.default_graph is not None and self.store is not None:
            return "default_graph goes with a server or a cluster, not with a store"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFile:
    """The settings of one person."""

    path: Path
    actor: str | None = None
    output: str | None = None
    defaults: Profile = field(default_factory=Profile)
    servers: Mapping[str, str] = field(default_factory=dict)
    """The address of each server by its name."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def operator_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the operator file and the credentials."""
    home = environment.get("OMNIGRAPH_HOME")
    return Path(home) if home else Path.home() / ".omnigraph"


def read_operator_file(environment: Mapping[str, str] = os.environ) -> OperatorFile:
    """Return the settings of the operator file; without a file, the defaults."""
    path = operator_directory(environment) / "config.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return OperatorFile(path=path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read '{path}': {getattr(error, 'strerror', None) or 'expected UTF-8'}",
            code="operator_file",
            hint="Correct or delete the file.",
        ) from error
    return parse_operator_file(text, path)


def parse_operator_file(text: str, path: Path) -> OperatorFile:
    """Return the settings of a text."""
    reader = _SettingsReader(str(path))
    root = reader.mapping(read_yaml(text, str(path)), "", ("operator", "defaults", "servers", "profiles"))
    operator = reader.mapping(root.get("operator"), "operator", ("actor",))
    defaults = reader.mapping(root.get("defaults"), "defaults", ("output", "server", "store", "default_graph"))
    servers = reader.mapping(root.get("servers"), "servers", None)
    profiles = reader.mapping(root.get("profiles"), "profiles", None)
    output = reader.text(defaults.get("output"), "defaults.output")
    if output is not None and output not in OUTPUTS:
        raise reader.invalid("defaults.output", f"expected one of {', '.join(OUTPUTS)}, got '{output}'")
    return OperatorFile(
        path=path,
        actor=reader.text(operator.get("actor"), "operator.actor"),
        output=output,
        defaults=Profile(
            server=reader.text(defaults.get("server"), "defaults.server"),
            store=reader.text(defaults.get("store"), "defaults.store"),
            default_graph=reader.text(defaults.get("default_graph"), "defaults.default_graph"),
        ),
        servers={name: reader.server(value, f"servers.{name}") for name, value in servers.items()},
        profiles={name: reader.profile(value, f"profiles.{name}") for name, value in profiles.items()},
        warnings=tuple(reader.warnings),
    )


class _SettingsReader:
    """Reads values of expected types and collects warnings about unknown keys."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.warnings: list[str] = []

    def mapping(self, value: Any, path: str, keys: tuple[str, ...] | None) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.invalid(path or "the file", f"expected a mapping, got {_describe(value)}")
        for key in value if keys is not None else ():
            if key not in (keys or ()):
                name = f"{path}.{key}" if path else key
                self.warnings.append(f"{self._source}: unknown key '{name}' is ignored")
        return value

    def text(self, value: Any, path: str) -> str | None:
        if value is not None and not isinstance(value, str):
            raise self.invalid(path, f"expected text, got {_describe(value)}")
        return value

    def server(self, value: Any, path: str) -> str:
        url = self.text(self.mapping(value, path, ("url",)).get("url"), f"{path}.url")
        if url is None:
            raise self.invalid(f"{path}.url", "expected the address of a server, got nothing")
        return url

    def profile(self, value: Any, path: str) -> Profile:
        members = self.mapping(value, path, (*_SCOPES, "default_graph"))
        return Profile(**{name: self.text(members.get(name), f"{path}.{name}") for name in (*_SCOPES, "default_graph")})

    def invalid(self, path: str, reason: str) -> UsageError:
        return UsageError(
            f"{self._source}: {path}: {reason}", code="operator_file", hint="Correct the file.", facts={"path": path}
        )


def _describe(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:60]
