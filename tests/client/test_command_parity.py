"""Commands print the same with `--server` as with `--store`: documents, text, errors and exit codes."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.app import make_command
from omnigraph.cli.command import Capability, OmnigraphCommand
from tests.cli.process import CommandResult, normalise, run_in_process
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA, serve

ADD = 'query add() { insert Person { slug: "eve" } }'
NOTHING = 'query nothing() { delete Person where slug = "none" }'
CONFLICT = 'query set() { update Person set { name: "N" } where slug = "ada" }'


@dataclass(frozen=True, slots=True)
class Both:
    """A graph, and a server of it."""

    directory: Path
    url: str
    ids: Mapping[str, str]

    def run(self, command: str, *, is_served: bool, name: str = "x") -> CommandResult:
        target = ["--server", self.url] if is_served else ["--store", "graph.omni"]
        words = shlex.split(command.format(name=name, **self.ids))
        return run_in_process(*words, *target, cwd=self.directory)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("both")
    (directory / "data.jsonl").write_text(LINES)
    (directory / "team.jsonl").write_text('{"type":"Team","data":{"name":"t"}}\n')
    (directory / "bad.jsonl").write_text('{"type":"Person","data":{"slug":"z"}}\n{"type":"Person","data":{"slug":1}}\n')
    (directory / "people.gq").write_text(f"{ALL_PEOPLE}\nquery bad() {{ match {{ $p: Persn }} return {{ $p }} }}\n")
    (directory / "good.gq").write_text(ALL_PEOPLE)
    graph = og.init(
        directory / "graph.omni", f"{SCHEMA}node Photo {{ name: String @key  content: Blob? }}", actor="ada"
    )
    graph.load(directory / "data.jsonl")
    graph.load([{"type": "Photo", "data": {"name": "p", "content": "base64:SGVsbG8="}}])
    review = graph.create_branch("review/1")
    review.mutate(ADD)
    graph.create_branch("clash").mutate(CONFLICT)
    graph.mutate(CONFLICT.replace('"N"', '"M"'))
    ids = {"main": graph.snapshot().head, "review": review.snapshot().head, "first": graph.log(None)[-1].id}
    with serve(directory / "graph.omni", directory) as server:
        yield Both(directory, f"http://{server.address}", ids)


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


Q = _plain(shlex.quote(ALL_PEOPLE))
READS = [
    f"query -e {Q}",
    "query q --query good.gq --commit {main}",
    f"query -e {Q} --branch review/1 --format jsonl",
    f"query -e {Q} --format csv",
    f"explain -e {Q}",
    "lint --query good.gq",
    "snapshot",
    "snapshot --branch review/1",
    "snapshot --commit {review}",
    "snapshot --commit HEAD --branch review/1",
    "schema show",
    "index status",
    "branch list",
    "commit list",
    "commit list --branch review/1 --limit 1",
    "commit show HEAD",
    "commit show HEAD --branch review/1",
    "commit show {review}",
    "commit changes {review}",
    "commit changes HEAD --branch review/1 --format jsonl",
    "changes poll",
    "changes poll --start beginning",
    "changes poll --start beginning --limit 1",
    "changes poll --cursor {first}",
    "changes poll --start beginning --format jsonl",
    "diff main review/1",
    "log",
    "log --limit 2",
    "log --draw",
    "branch merge review/1 --dry-run",
    "branch merge clash --dry-run",
    "blob stat node Photo p content",
    "blob stat node Photo p content --branch review/1",
    "blob get node Photo p content",
    "blob get node Photo p content --out out.jsonl",
    "export --out out.jsonl",
    "export --out out.jsonl.gz",
    "export --out out.jsonl --type Person",
    "export",
]
ERRORS = {
    "invalid_content": "query bad --query people.gq",
    "lint": "lint --query people.gq",
    "not_found": "commit show zzzz",
    "not_found of a full id": "commit show 01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "not_found of a branch": "snapshot --branch none",
    "not_found of changes": "commit changes zzzz",
    "not_found of a diff": "diff main none",
    "not_found of a cursor": "changes poll --cursor zzzz",
    "not_found of a type": "export --type Nope",
    "bad_request": f"query -e {Q} --params '{{{{\"x\": 1}}}}'",
    "bad_request of a branch": "branch create 'a b'",
    "bad_request of a start": "changes poll --start never",
    "not_found of a blob": "blob get node Photo none content",
    "not_found of a type of blobs": "blob stat node Nope p content",
    "bad_request of a blob": "blob stat node Photo p name",
    "refused of a file": "blob get node Photo p content --out data.jsonl",
    "refused of an export": "export --out data.jsonl",
    "bad_request of a directory": "export --out none/out.jsonl",
    "invalid_content of rows": "load --data bad.jsonl",
    "conflict": "branch merge clash",
    "conflict of a branch": "branch create review/1",
    "precondition_failed": f"mutate -e {_plain(shlex.quote(ADD))} --if-commit 01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "refused": "branch delete main --yes",
    "refused of a first commit": "commit changes {first}",
    "mutation in a query": f"query -e {_plain(shlex.quote(ADD))}",
}
WRITES = [
    "branch create {name}",
    f"mutate -e {_plain(shlex.quote(ADD))} --branch {{name}}",
    f"mutate -e {_plain(shlex.quote(NOTHING))} --branch {{name}}",
    "load --data team.jsonl --branch {name}",
    "load --data team.jsonl --branch {name} --mode merge",
    "load --data team.jsonl --branch {name}-new --from main",
    "branch merge {name}-new --into {name} --delete-branch --yes",
    "branch delete {name} --yes",
]
NO_DOCUMENT = ("export", "blob get", "jsonl", "csv")


@pytest.mark.parametrize("command", READS)
def test_reads(both: Both, command: str) -> None:
    compare(both, command)


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(both: Both, kind: str) -> None:
    outcome = compare(both, ERRORS[kind])
    assert outcome.exit_code != 0


def test_writes(both: Both) -> None:
    for command in WRITES:
        for form in ([] if "delete" in command or "create" in command else [" --json"]) or [""]:
            store, server = (
                both.run(command + form, is_served=is_served, name=name)
                for is_served, name in ((False, "one"), (True, "two"))
            )
            assert store.exit_code == 0, store.stderr
            assert _comparable(both, server) == _comparable(both, store), command


def test_every_command_for_servers_is_compared() -> None:
    names = {name for name, command in _commands() if command.capability is Capability.ANY}
    lines = [*READS, *ERRORS.values(), *WRITES]
    not_compared = {name for name in names if not any(line.startswith(name) for line in lines)}
    assert not_compared == {"doctor", "mcp"}  # the server checks another machine; agents have tests of their own


def test_doctor(both: Both) -> None:
    checked = json.loads(both.run("doctor --json", is_served=True).stdout)
    assert checked["healthy"] is True
    assert checked["uri"] == "graphs/default"
    assert {finding["check"] for finding in checked["findings"]} <= {
        finding["check"] for finding in json.loads(both.run("doctor --json", is_served=False).stdout)["findings"]
    }


def compare(both: Both, command: str) -> CommandResult:
    """Run the command both ways, as text and as JSON, and return the outcome of the store."""
    is_text = ".gz" in command or (any(word in command for word in NO_DOCUMENT) and "--out" not in command)
    for form in [""] if is_text else ["", " --json"]:
        store, server = (run_and_read_file(both, command + form, is_served=is_served) for is_served in (False, True))
        assert _comparable(both, server[0]) == _comparable(both, store[0])
        assert server[1] == store[1]
    return store[0]


def run_and_read_file(both: Both, command: str, *, is_served: bool) -> tuple[CommandResult, bytes | None]:
    """Run a command; return its outcome and the file that it wrote, which is deleted."""
    outcome = both.run(command, is_served=is_served)
    assert "Traceback" not in outcome.stderr
    for file in both.directory.glob("out.jsonl*"):
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        file.unlink()
        return outcome, content
    return outcome, None


def _comparable(both: Both, outcome: CommandResult) -> Any:
    """Return the outcome without what names the graph, and without times."""

    def hide(text: str) -> str:
        text = normalise(text, both.directory)
        for address in (f"{both.url} graphs/default (server)", "<place>/graph.omni (direct, local)"):
            text = text.replace(normalise(address, both.directory), "<graph>")
        names = (
            "<place>/graph.omni",
            "graphs/default",
            f"--server {normalise(both.url, both.directory)}",
            "graph.omni",
        )
        for name in names:
            text = text.replace(name, "<graph>")
        text = re.sub(r'"actor_id": "\w+"|"(graph_manifest_)?version": \d+', "<varies>", text)
        text = re.sub(r" *\b\d+[dhms]\b", " <age>", text)
        return text.replace("two", "one")

    stdout = outcome.stdout
    if stdout.startswith("{\n"):
        document = json.loads(stdout)
        document.pop("advice", None)
        stdout = json.dumps(document, indent=2, sort_keys=True)
    return outcome.exit_code, hide(stdout), hide(outcome.stderr)


def _commands() -> Iterator[tuple[str, OmnigraphCommand]]:
    tree: Any = make_command()
    for name, command in tree.commands.items():
        if isinstance(command, OmnigraphCommand):
            yield name, command
        else:
            yield from ((f"{name} {second}", member) for second, member in command.commands.items())
