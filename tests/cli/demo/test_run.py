"""The demo runs to its end, and keeps files only with `--dir` or `--keep`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import omnigraph as og
from omnigraph.cli.commands.serve import find_missing_package
from omnigraph.cli.demo.dataset import write_company
from omnigraph.cli.demo.run import _command_name, _next_commands, _run_section
from omnigraph.cli.demo.steps import SECTIONS, DemoState
from tests.cli.process import OMNIGRAPH, environment, omnigraph, run_in_process
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

PEOPLE = 200
COMMITS = 12
SIZE = ("--people", str(PEOPLE), "--commits", str(COMMITS))


def test_demo_runs_every_section_and_serves_until_ctrl_c(tmp_path: Path, warm_spark: dict[str, str]) -> None:
    output = tmp_path / "output"
    with output.open("w") as stdout:
        demo = subprocess.Popen(
            [OMNIGRAPH, "demo", "--dir", "demo", "--serve", *SIZE],
            cwd=tmp_path,
            env=environment(warm_spark),
            stdout=stdout,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: demo.poll() is not None or "Press Ctrl-C" in output.read_text())
        text = output.read_text()
        assert demo.poll() is None, text
        address = text.split("The graph is served at ")[1].split("/, ")[0]
        assert b"<title>Omnigraph</title>" in urlopen(f"{address}/").read()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS_MAX) == 0
    finally:
        demo.kill()
        demo.wait()
    with pytest.raises(URLError, match="refused"):
        urlopen(f"{address}/")

    for section in SECTIONS:
        assert section.title in text
    assert '"rows":[{"t.city":' in text, "a reader's answer over HTTP"
    assert "policy denied action 'change' on branch 'main' for actor 'bo'" in text
    assert "embedded 20 rows" in text
    assert "Skipped" not in text
    assert f"omnigraph schema show {tmp_path}/demo/graph.omni\n" in output.read_text()

    graph = og.open(str(tmp_path / "demo" / "graph.omni"), read_only=True)
    pay = "query q() { match { $p: Person } return { $p.slug, $p.salary } }"
    salaries = {row["p.slug"]: row["p.salary"] for row in graph.query(pay).to_pylist()}
    # The merge took p7 from the branch and p8 with it; the external delete of high salaries was discarded.
    assert (salaries["p8"], salaries["p9"]) == (165_000, 92_000)
    assert salaries["p7"] == 93_000, "ada changed it through the server"
    assert graph.log()[0].actor == "ada"
    assert len(salaries) == PEOPLE + COMMITS
    loaded = {
        line["data"]["slug"]: line["data"]["salary"]
        for line in map(json.loads, (tmp_path / "demo" / "company.jsonl").read_text().splitlines())
        if line.get("type") == "Person"
    }
    assert all(salaries[slug] > loaded[slug] for slug in ("p7", "p8", "p9")), "every change increased the salary"
    # The killed writer had committed both tables, so recovery published both.
    night = 'query q() { match { $p memberOf $t  $t: Team { slug: "night" } } return { $p.slug } }'
    assert graph.query(night).to_pylist() == [{"p.slug": "p1"}]
    assert len(graph.recoveries()) == 1
    assert [branch.record.name for branch in graph.list_branches()] == ["main"]
    assert not graph.pending_writes()
    # Cleanup deleted the versions of the small commits.
    versions = next((tmp_path / "demo" / "graph.omni" / "nodes").glob("*/_versions"))
    assert len(list(versions.iterdir())) <= COMMITS


def test_temporary_directory_is_deleted_after_an_error(tmp_path: Path) -> None:
    nowhere = {"TMPDIR": str(tmp_path), "MASTER": "nonsense"}
    outcome = omnigraph("demo", *SIZE, cwd=tmp_path, env=nowhere)
    assert outcome.exit_code == 1
    assert "failed: expected exit code 0, got" in outcome.stderr
    assert not list(tmp_path.glob("omnigraph-demo-*"))


def test_demo_without_the_extra_skips_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "omnigraph.server.process", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    missing = find_missing_package()
    section = SECTIONS[-1]
    written = StringIO()
    with redirect_stdout(written):
        _run_section(1, section, DemoState(directory=tmp_path, people_count=PEOPLE, commit_count=COMMITS), missing)
    skipped = "the server needs the package uvicorn, which is not installed. Run `pip install 'omnigraph[server]'`."
    assert written.getvalue() == f"\n=== 1. {section.title}\n{section.explanation}\n\nSkipped: {skipped}\n"
    outcome = run_in_process("demo", "--serve", cwd=tmp_path)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "the server needs the package uvicorn" in outcome.stderr


def test_next_commands_use_a_path_that_the_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / ".venv" / "bin" / "omnigraph"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(script.parent / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _command_name() == str(script)
    monkeypatch.chdir(tmp_path)
    assert _command_name() == ".venv/bin/omnigraph"
    assert "  .venv/bin/omnigraph demo --dir demo\n" in _next_commands(_command_name(), None)
    monkeypatch.setenv("PATH", str(script.parent))
    assert _command_name() == "omnigraph"


def test_directory_with_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    outcome = run_in_process("demo", "--dir", ".", cwd=tmp_path)
    assert outcome.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_data_is_deterministic(tmp_path: Path) -> None:
    texts = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        lines = write_company(PEOPLE, tmp_path / name)
        texts.append((tmp_path / name / "company.jsonl").read_text())
        assert lines == len(texts[-1].splitlines())
    assert texts[0] == texts[1]
    kinds = Counter(record.get("edge") for record in map(json.loads, texts[0].splitlines()))
    assert kinds["Knows"] == 2 * kinds["MemberOf"] == 2 * kinds["WorksOn"] == 2 * PEOPLE
