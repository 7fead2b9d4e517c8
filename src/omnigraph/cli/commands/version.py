"""`omnigraph version`: this release, its storage format, and the installed versions, which it does not import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph import __version__
from omnigraph.base.version import INTERNAL_SCHEMA_VERSION
from omnigraph.cli.command import Capability, command
from omnigraph.cli.results import TextOutput

if TYPE_CHECKING:
    from omnigraph.wire.machine import VersionOutput

_PACKAGES: Final = {"lance": "pylance", "pyspark": "pyspark"}


@command("omnigraph version", "omnigraph version --json", capability=Capability.LOCAL)
def version(output: TextOutput) -> None:
    """Show the versions of Omnigraph, Python, Lance and Spark.

    internal-schema is the storage format that this release writes.
    """
    package_versions = {name: _installed_version(package) for name, package in _PACKAGES.items()}
    python = ".".join(str(part) for part in sys.version_info[:3])

    def document() -> VersionOutput:
        from omnigraph.wire.machine import VersionOutput

        return VersionOutput(
            version=__version__,
            internal_schema_version=INTERNAL_SCHEMA_VERSION,
            python=python,
            lance=package_versions["lance"],
            pyspark=package_versions["pyspark"],
        )

    lines = [f"omnigraph {__version__}", f"internal-schema {INTERNAL_SCHEMA_VERSION}", f"python {python}"]
    lines += [f"{name} {installed or 'not installed'}" for name, installed in package_versions.items()]
    output.show(document, text="\n".join(lines))


def _installed_version(package: str) -> str | None:
    """Return the version in the name of the package's metadata directory.

    If the directory is missing, use `importlib.metadata`, which is slow to import.
    """
    for directory in sys.path:
        for dist_info in Path(directory).glob(f"{package}-*.dist-info"):
            return dist_info.name.removeprefix(f"{package}-").removesuffix(".dist-info")

    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as read_version

    try:
        return read_version(package)
    except PackageNotFoundError:
        return None
