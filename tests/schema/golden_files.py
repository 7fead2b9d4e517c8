"""Golden files of schemas: their directories, and how to compare one or, with `--update-golden`, write it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

GOOD: Final = Path(__file__).parent / "golden" / "good"
BAD: Final = Path(__file__).parent / "golden" / "bad"


def schema_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.pg") if not path.name.endswith(".canonical.pg"))


def read_text(path: Path) -> str:
    """Return the text with its own line ends."""
    return path.read_bytes().decode()


def compare(path: Path, actual: str, *, update: bool) -> None:
    if update:
        path.write_bytes(actual.encode())
    assert path.exists(), f"{path.name} is missing; write it with --update-golden and review it"
    assert actual == read_text(path)
