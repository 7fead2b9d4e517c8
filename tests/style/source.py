"""Read the files of the repository for the style tests."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SourceFile:
    """A Python file: its path relative to the repository, and its text."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def module(self) -> str:
        """The dotted name, such as `omnigraph.graph.commit`."""
        parts = self.path.with_suffix("").parts
        return ".".join(part for part in parts if part not in ("src", "__init__"))

    @property
    def in_package(self) -> bool:
        return self.path.parts[0] == "src"


def python_sources() -> Iterator[SourceFile]:
    for folder in ("src", "tests", "bench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield SourceFile(path.relative_to(ROOT), path.read_text())


def text_files() -> Iterator[tuple[Path, str]]:
    """Yield every text file that git tracks or does not ignore, with its path relative to the repository.

    Files of other projects, which are kept unchanged, are left out.
    """
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in sorted(set(names.split("\0")) - {""}):
        if "/static/vendor/" in name and not name.endswith(".toml"):
            continue
        data = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in data:
            yield Path(name), data.decode(errors="replace")
