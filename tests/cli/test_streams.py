"""Where a command's output goes: a terminal, a full disk, nowhere; and that a graph cannot play with a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import omnigraph
from tests.cli.process import OMNIGRAPH, SCHEMA, SECONDS_MAX, environment, omnigraph_here


def test_a_table_fits_the_terminal(graph: Path) -> None:
    text = _run_in_terminal("commit", "list", str(graph), columns=60)
    assert "\x1b[1m" in text
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    lines = plain.replace("\r", "").splitlines()
    assert max(len(line) for line in lines) <= 60
    assert "init" in plain


def test_a_full_disk_is_said(graph: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        return  # only Linux has one
    with full.open("w") as stdout:
        done = _run("snapshot", str(graph), "--json", stdout=stdout.fileno())
    assert done.returncode == 1
    assert (
        done.stderr
        == b"error: the output could not be written: No space left on device\nhint: write it to another place\n"
    )


def test_closed_streams_are_no_defect(graph: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "{OMNIGRAPH}" snapshot "{graph}" >&- 2>&-'],
        env=environment(),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_graph_cannot_write_control_codes(tmp_path: Path) -> None:
    actor = "eve\x1b[2J\nada"
    omnigraph.init(str(tmp_path / "g"), SCHEMA, options=omnigraph.OpenOptions(actor=actor))
    for form in ("table", "kv"):
        shown = omnigraph_here("commit", "list", "g", "--format", form, cwd=tmp_path).stdout
        assert r"eve\x1b[2J\nada" in shown
    missing = omnigraph_here("snapshot", "g\x1b[2J", cwd=tmp_path)
    assert "\x1b" not in missing.stderr


def _run(*arguments: str, stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [OMNIGRAPH, *arguments],
        env=environment(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=SECONDS_MAX,
        check=False,
    )


def _run_in_terminal(*arguments: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    env = {key: value for key, value in environment().items() if key != "NO_COLOR"}
    colourful = {**env, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen([OMNIGRAPH, *arguments], env=colourful, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65_536):
                text += part
        except OSError:  # how Linux says that the other side has closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return text.decode()


def test_a_text_cannot_send_codes_to_a_terminal(tmp_path: Path) -> None:
    """Neither by the line that is shown nor by a name in a message."""
    (tmp_path / "schema.pg").write_text("node A { x: \x1b[31mString @key }\n", encoding="utf-8")
    shown = omnigraph_here("init", "g.omni", "--schema", "schema.pg", "-q", cwd=tmp_path).stderr
    assert "\x1b" not in shown
    line, caret = shown.splitlines()[2:4]
    assert line[caret.index("^")] == "\N{REPLACEMENT CHARACTER}"
