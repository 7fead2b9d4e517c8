"""Tokens of servers: where they are stored, and which one a request may carry.

A token is read from `OMNIGRAPH_TOKEN_<NAME>`, from `[name]` in `~/.omnigraph/credentials`, or from
`OMNIGRAPH_BEARER_TOKEN`. The file must not be readable by others. A token of a named server goes to that server only.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from omnigraph.base.errors import UsageError
from omnigraph.client.operator_file import operator_directory

BEARER_TOKEN: Final = "OMNIGRAPH_BEARER_TOKEN"


def find_token(name: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token for a server. Without a name, only `OMNIGRAPH_BEARER_TOKEN` applies."""
    if name is not None:
        variable = environment.get(f"OMNIGRAPH_TOKEN_{name.upper().replace('-', '_')}")
        if variable:
            return variable
        section = _read(credentials_file(environment))
        if section.has_option(name, "token"):
            return section.get(name, "token")
    return environment.get(BEARER_TOKEN) or None


def credentials_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the tokens."""
    return operator_directory(environment) / "credentials"


def save_token(name: str, token: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Store the token of a server; replace the earlier one."""
    path = credentials_file(environment)
    stored = _read(path)
    if not stored.has_section(name):
        stored.add_section(name)
    stored.set(name, "token", token)
    _write(path, stored)
    return path


def delete_token(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Delete the token of a server; return whether there was one."""
    path = credentials_file(environment)
    stored = _read(path)
    if not stored.remove_section(name):
        return False
    _write(path, stored)
    return True


def _read(path: Path) -> ConfigParser:
    stored = ConfigParser(interpolation=None, default_section="")
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise UsageError(
                    f"'{path}' can be read by other users: expected mode 600, got {mode:o}",
                    code="credentials_mode",
                    hint=f"Run `chmod 600 {shlex.quote(str(path))}`.",
                )
            stored.read_file(file)
    except FileNotFoundError:
        return stored
    except (OSError, UnicodeDecodeError, IniError) as error:
        raise UsageError(
            f"cannot read '{path}': expected sections with a token, as in an INI file",
            code="credentials_invalid",
            hint="Correct or delete the file, then run `omnigraph login NAME`.",
        ) from error
    return stored


def _write(path: Path, stored: ConfigParser) -> None:
    """Replace the file. The temporary file has mode 600 from the start."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".credentials-", delete=False, encoding="utf-8") as file:
        stored.write(file)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
