"""A disk that is full or read-only: one error with a hint, no data is lost, and the next run works.

The disk is a small file system in memory, which only root may mount.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lance
import pytest

import omnigraph as og
from tests.cli.process import SCHEMA, CommandResult, assert_success_or_one_error, omnigraph

pytestmark = pytest.mark.soak
KIBIBYTE = 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A graph with one person on a disk of six megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(path)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs permission to mount a file system")
    try:
        og.init(str(path / "graph.omni"), SCHEMA)
        assert add(path, "first").exit_code == 0
        yield path
    finally:
        # Lazily, because a running worker of Spark may have a file open.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def add(disk: Path, slug: str) -> CommandResult:
    text = f'query add() {{ insert Person {{ slug: "{slug}" }} }}'
    return omnigraph("mutate", "-e", text, "--store", "graph.omni", "--quiet", cwd=disk)


def slugs(disk: Path) -> set[str]:
    text = "query q() { match { $p: Person } return { $p.slug } }"
    return {row["p.slug"] for row in og.open(str(disk / "graph.omni"), read_only=True).query(text).to_pylist()}


def fill(disk: Path, free_bytes: int) -> Path:
    """Fill the disk except for `free_bytes`."""
    path = disk / "fill"
    with path.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(KIBIBYTE)) == KIBIBYTE:
                pass
        file.truncate(file.tell() // KIBIBYTE * KIBIBYTE - free_bytes)
    return path


@pytest.mark.parametrize("free_bytes", [0, *range(4 * KIBIBYTE, 32 * KIBIBYTE, 4 * KIBIBYTE)])
def test_disk_is_full_during_a_command(disk: Path, free_bytes: int) -> None:
    filler = fill(disk, free_bytes)
    first = add(disk, "tried")
    assert_success_or_one_error(first)
    filler.unlink()
    assert add(disk, "after").exit_code == 0
    existing_slugs = slugs(disk)
    assert existing_slugs >= {"first", "after"}
    is_known = "unknown" not in first.stderr
    assert not is_known or ("tried" in existing_slugs) == (first.exit_code == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("mutate", "-e", 'query a() { insert Person { slug: "x" } }', "--store", "graph.omni"),
        ("branch", "create", "b", "--store", "graph.omni"),
        ("cleanup", "graph.omni", "--keep", "1", "--confirm"),
        ("init", "other.omni", "--schema", "../schema.pg"),
    ],
)
def test_read_only_disk(disk: Path, arguments: tuple[str, ...]) -> None:
    (disk.parent / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    failed = omnigraph(*arguments, cwd=disk)
    assert failed.exit_code == 1
    assert "error: no permission to write" in failed.stderr
    assert slugs(disk) == {"first"}
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert omnigraph(*arguments, cwd=disk).exit_code == 0


WORK = {
    "load": ("load", "--data", "../people.jsonl", "graph.omni"),
    "optimize": ("optimize", "graph.omni"),
    "export": ("export", "graph.omni", "--out", "dump.jsonl"),
    "schema apply": ("schema", "apply", "--schema", "../next.pg", "graph.omni"),
    "branch merge": ("branch", "merge", "b", "graph.omni"),
    "repair": ("repair", "graph.omni", "--confirm"),
}
ON_SPARK = ("load", "optimize", "export")
NEW = {"load": {"loaded"}, "branch merge": {"merged"}}


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("trouble", ["read-only", "full", "nearly full"])
@pytest.mark.parametrize("command", WORK)
def test_command_that_writes_large_files(
    command: str, trouble: str, disk: Path, request: pytest.FixtureRequest
) -> None:
    env = request.getfixturevalue("warm_spark") if command in ON_SPARK else {}
    prepare(disk, command)
    filler = None
    if trouble == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    else:
        filler = fill(disk, 0 if trouble == "full" else 12 * KIBIBYTE)
    first = omnigraph(*WORK[command], cwd=disk, env=env)
    assert_success_or_one_error(first)
    assert first.exit_code == 1 or trouble == "nearly full"
    assert {"first", "second"} <= slugs(disk)
    assert not [path for path in disk.glob("*dump*") if first.exit_code != 0]
    if filler is None:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    else:
        filler.unlink()
    if command == "load":
        og.open(str(disk / "graph.omni"))  # recovers the interrupted load; otherwise a second load may fail
    if first.exit_code != 0 and not (command == "load" and "loaded" in slugs(disk)):
        again = omnigraph(*WORK[command], cwd=disk, env=env)
        assert again.exit_code == 0, again.stderr
    assert slugs(disk) == {"first", "second"} | NEW.get(command, set())
    assert not [finding for finding in og.open(str(disk / "graph.omni")).doctor() if finding.health.value == "problem"]
    assert command != "export" or (disk / "dump.jsonl").read_text().count("\n") == 2


def prepare(disk: Path, command: str) -> None:
    """Create two people on main, one on a branch, and input files. For `repair`, compact as another tool would."""
    schema = SCHEMA.replace("age: I32?", "age: I32?\n  rank: I32 @default(1)")
    (disk.parent / "next.pg").write_text(schema, encoding="utf-8")
    (disk.parent / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "loaded"}}\n')
    assert add(disk, "second").exit_code == 0
    graph = og.open(str(disk / "graph.omni"))
    graph.create_branch("b", from_="main").mutate('query a() { insert Person { slug: "merged" } }')
    if command == "repair":
        person = graph.snapshot().tables["node:Person"]
        lance.dataset(str(disk / "graph.omni" / person.path)).optimize.compact_files()
