"""Fetch the files of other projects that the web pages load, and verify them.

In: `VENDOR.toml`. Out: the files next to it, and their SHA-512 in its table `sha512`. A package whose SHA-512 is not
the published one is rejected before a file is written. Run `python tools/vendor.py`; it needs npm.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

VENDOR: Final = Path(__file__).parents[1] / "src" / "omnigraph" / "server" / "static" / "vendor"
LIST: Final = VENDOR / "VENDOR.toml"


def main() -> None:
    """Write every vendored file and the table of their hashes."""
    text = LIST.read_text(encoding="utf-8")
    contents: dict[str, bytes] = {}
    for package in tomllib.loads(text)["package"]:
        contents |= fetch(package)
    for name, content in contents.items():
        (VENDOR / name).write_bytes(content)
    hashes = "".join(f'"{name}" = "{hashlib.sha512(contents[name]).hexdigest()}"\n' for name in sorted(contents))
    LIST.write_text(f"{text.partition('[sha512]')[0]}[sha512]\n{hashes}", encoding="utf-8")


def fetch(package: dict[str, Any]) -> dict[str, bytes]:
    """Return the listed files of a package; exit if it is not the published one."""
    with tempfile.TemporaryDirectory() as directory:
        package_version = f"{package['name']}@{package['version']}"
        subprocess.run(["npm", "pack", package_version, "--silent", "--pack-destination", directory], check=True)
        (archive,) = Path(directory).iterdir()
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if package["integrity"] != f"sha512-{digest}":
            sys.exit(f"{package_version}: expected {package['integrity']}, got sha512-{digest}")
        contents: dict[str, bytes] = {}
        with tarfile.open(archive) as files:
            for source, name in package["files"].items():
                member = files.extractfile(f"package/{source}")
                assert member is not None, source
                contents[name] = member.read()
        return contents


if __name__ == "__main__":
    main()
