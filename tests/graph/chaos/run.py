"""A chaos run: `python -m tests.graph.chaos.run --seconds 3600 --seed 7`. `make soak-chaos` runs it for an hour.

Six writers change a graph until a round ends: commands, Python, a server, loads, merges of branches, and maintenance
with an external tool. Processes are killed and stopped at random times and failpoints, files cannot be written or
synced, and every second round uses S3 behind a proxy that loses, fails and delays requests. After each round all
processes are killed, the graph is recovered, and an oracle compares everything with the acknowledged writes. The first
violation ends the run, and the graph is kept. The seed repeats the choices, not the timing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import urllib3

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from tests.conftest import S3Server, running_s3_server
from tests.file_faults import built_library
from tests.forked import ForkedProcess
from tests.graph.chaos import worker as protocol
from tests.graph.chaos.oracle import EXTERNAL, Attempt, Oracle, Outcome
from tests.s3_proxy import Fault, Mode, S3Proxy
from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX, wait_until

ROUND_SECONDS: Final = 60.0
ROUNDS_PER_GRAPH: Final = 8
FAULTY_REQUESTS: Final = 0.01
LATE_SECONDS_MAX: Final = 40.0
SCHEMA: Final = """\
node Item { slug: String @key  writer: String  value: I64 }
node Tag { slug: String @key }
edge Tagged: Item -> Tag
"""
DEATHS: Final = tuple(
    point
    for point in Failpoint
    if not point.value.startswith(("init.", "cluster.", "schema.", "manifest.migrate", "manifest.stamp"))
)


class LossyProxy(S3Proxy):
    """A proxy that affects a share of the requests: it loses, refuses, fails or delays them."""

    def __init__(self, server: S3Server, chance: random.Random) -> None:
        super().__init__(server)
        self._chance = chance
        self.faults = 0
        self.is_lossy = True
        self._late: list[Fault] = []
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]  # killed clients close connections

    def fault_for(self, method: str, path: str) -> Fault | None:
        if not self.is_lossy or self._chance.random() >= FAULTY_REQUESTS:
            return None
        self.faults += 1
        fault = Fault(self._chance.choice([mode for mode in Mode if mode is not Mode.FORBID]), path, method)
        if fault.mode is Mode.HOLD:
            fault.acted.append(path)
            self._late.append(fault)
            timer = threading.Timer(self._chance.random() ** 3 * LATE_SECONDS_MAX, fault.gate.set)
            timer.daemon = True
            timer.start()
        return fault

    def drain(self) -> None:
        """Let all delayed requests arrive, so that nothing changes the store after the writers have ended."""
        self.is_lossy = False
        for fault in self._late:
            fault.gate.set()
        wait_until(lambda: all(len(fault.passed) == len(fault.acted) for fault in self._late), "late requests arrive")
        self._late.clear()


@dataclass(frozen=True, slots=True)
class WriterReply:
    """What a program answered: the outcome of the write, its commit, and the error."""

    outcome: Outcome
    commit: str | None = None
    error: str = ""


class Worker:
    """A Python process that serves requests; it is started again after its death."""

    def __init__(self, uri: str, variables: Mapping[str, str]) -> None:
        self._uri, self._variables = uri, variables
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: protocol.WorkerRequest) -> protocol.WorkerAnswer | None:
        """Return the answer; None if the process was killed before it answered."""
        if self.process is None or self.process.poll() is not None:
            self.kill()
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.graph.chaos.worker", self._uri],
                cwd=ROOT,
                env=dict(self._variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(msgspec.json.encode(request).decode() + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):
            if self.process.wait(SECONDS_MAX) not in (-signal.SIGKILL, -signal.SIGTERM):
                raise RuntimeError(f"a worker ended with {self.process.returncode}")
            return None
        return msgspec.json.decode(line, type=protocol.WorkerAnswer)

    def kill(self) -> None:
        """Kill the process if it runs, and close its streams."""
        if self.process is not None:
            self.process.kill()
            with suppress(BrokenPipeError), self.process:  # a request may be left that it has not read
                pass


@dataclass(slots=True)
class Round:
    """The writers of one round on one graph."""

    uri: str
    variables: Mapping[str, str]
    oracle: Oracle
    folder: Path
    seed: str
    deadline: float
    number: int
    has_disk_faults: bool
    victims: dict[str, int] = field(default_factory=dict)
    """The processes that the killer may choose, by name."""
    failures: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    tasks: list[Future[None]] = field(default_factory=list)
    server_url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def runs(self) -> bool:
        has_failed = bool(self.failures) or any(task.done() and task.exception() for task in self.tasks)
        return SYSTEM_CLOCK.monotonic() < self.deadline and not has_failed

    def run(self) -> None:
        """Run all writers until the deadline, then kill what is left."""
        kinds: tuple[Callable[[random.Random], None], ...] = (
            *(self._write_by_commands, self._write_by_python, self._write_by_server, self._load, self._merge),
            *(self._maintain, self._serve, self._kill),
        )
        with ThreadPoolExecutor(len(kinds)) as threads:
            self.tasks = [
                threads.submit(kind, random.Random(f"{self.seed} {self.number} {kind.__name__}")) for kind in kinds
            ]
            while self.runs:
                SYSTEM_CLOCK.sleep(0.2)
            # The writers that still run are killed at their end: their writes have unknown outcomes.
            while not all(task.done() for task in self.tasks):
                for pid in list(self.victims.values()):
                    _signal(pid, signal.SIGKILL)
                SYSTEM_CLOCK.sleep(0.05)
        for task in self.tasks:
            if (error := task.exception()) is not None:
                self.failures.append("".join(traceback.format_exception(error)))

    # Writers

    def _write_by_commands(self, chance: random.Random) -> None:
        self._change_items("cli", chance, lambda text: self._command(chance, "mutate", "--store", self.uri, "-e", text))

    def _write_by_python(self, chance: random.Random) -> None:
        preload = {"LD_PRELOAD": str(built_library())} if self.has_disk_faults and built_library() else {}
        worker = Worker(self.uri, {**self.variables, **preload})

        def send(text: str) -> WriterReply:
            request = protocol.Mutate(text=text)
            if preload and chance.random() < 0.3:
                number, is_sync = chance.randint(1, 40), chance.random() < 0.5
                request = protocol.Mutate(
                    text=text,
                    write=0 if is_sync else number,
                    sync=number if is_sync else 0,
                    is_permanent=chance.random() < 0.3,
                )
            return self._ask(worker, request)

        def read(slug: str) -> tuple[bool, int | None]:
            answer = self._ask_worker(worker, protocol.Read(slug=slug))
            return (True, answer.value) if answer is not None and not answer.error else (False, None)

        try:
            self._change_items("python", chance, send, read)
        finally:
            worker.kill()

    def _write_by_server(self, chance: random.Random) -> None:
        pool = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(SECONDS_MAX))

        def post(route: str, text: str) -> Any:
            address = self.server_url
            if not address:
                return None
            try:
                return pool.request("POST", f"{address}/graphs/default/{route}", json={"query": text}).json()
            except (urllib3.exceptions.HTTPError, ValueError):
                SYSTEM_CLOCK.sleep(0.2)
                return None

        def send(text: str) -> WriterReply:
            while not self.server_url and self.runs:
                SYSTEM_CLOCK.sleep(0.02)
            document = post("mutate", text)
            return WriterReply(Outcome.UNKNOWN) if document is None else self._reply(document)

        def read(slug: str) -> tuple[bool, int | None]:
            text = f'query q() {{ match {{ $i: Item {{ slug: "{slug}" }} }} return {{ $i.value as value }} }}'
            document = post("query", text)
            if document is None or "rows" not in document:
                return False, None
            return True, document["rows"][0]["value"] if document["rows"] else None

        with pool:
            self._change_items("server", chance, send, read)

    def _load(self, chance: random.Random) -> None:
        number = 0
        while self.runs:
            number += 1
            slugs = [f"load-{self.number}-{number}-{row}" for row in range(chance.randint(1, 30))]
            path = self.folder / "load.jsonl"
            path.write_text("".join(_lines(slug, number) for slug in slugs), encoding="utf-8")
            attempt = self.oracle.begin(dict.fromkeys(slugs, number))
            mode = chance.choice(["append", "merge"])
            reply = self._command(chance, "load", "--data", str(path), "--mode", mode, self.uri)
            self._end("load", attempt, reply)

    def _merge(self, chance: random.Random) -> None:
        number = 0
        while self.runs:
            number += 1
            branch, slug = f"branch-{self.number}-{number}", f"merge-{self.number}-{number}"
            if (
                self._command(chance, "branch", "create", "--from", "main", branch, self.uri).outcome
                is Outcome.REJECTED
            ):
                continue
            text = _insertion(slug, "merge", number)
            written = self._command(chance, "mutate", "--store", self.uri, "--branch", branch, "-e", text)
            self.oracle.count("branch", written.outcome)
            if written.outcome is not Outcome.ACKNOWLEDGED:
                continue
            self.oracle.note_branch(branch, slug)
            attempt = self.oracle.begin({slug: number})
            deletes = ["--delete-branch", "--yes"] if chance.random() < 0.7 else []
            if deletes:
                self.oracle.forget_branch(branch)
            reply = self._command(chance, "branch", "merge", branch, self.uri, *deletes)
            while (
                reply.outcome is Outcome.REJECTED and self.runs and chance.random() < 0.8
            ):  # another writer was faster
                reply = self._command(chance, "branch", "merge", branch, self.uri, *deletes)
            self._end("merge", attempt, reply)

    def _maintain(self, chance: random.Random) -> None:
        worker, number = Worker(self.uri, self.variables), 0
        try:
            while self.runs:
                number += 1
                dice = chance.random()
                if dice < 0.25:
                    slug = f"{EXTERNAL}{self.number}-{number}" if chance.random() < 0.6 else ""
                    self._write_externally(worker, slug, chance)
                elif dice < 0.5:
                    arguments = ("maintain", self.uri, "--keep", "3", "--older-than", "1m", "--confirm", "--yes")
                    self._count("maintain", self._command(chance, *arguments))
                elif dice < 0.8:
                    self._count("optimize", self._command(chance, "optimize", self.uri))
                else:
                    arguments = ("cleanup", "--keep", "3", "--older-than", "1m", "--confirm", "--yes", self.uri)
                    self._count("cleanup", self._command(chance, *arguments))
                SYSTEM_CLOCK.sleep(chance.random())
        finally:
            worker.kill()

    def _write_externally(self, worker: Worker, slug: str, chance: random.Random) -> None:
        """Change a table as an external tool does, and repair it: nothing else may lose a row."""
        attempt = self.oracle.begin({slug: 1} if slug else {})
        answer = self._ask_worker(worker, protocol.WriteExternally(slug=slug))
        self.oracle.count("external", Outcome.UNKNOWN if answer is None else Outcome.ACKNOWLEDGED)
        self.oracle.end(attempt, Outcome.UNKNOWN)  # repair publishes or discards the row
        while self.runs:
            flag = chance.choice(["--force", "--discard"])
            reply = self._command(chance, "repair", self.uri, "--confirm", flag)
            self._count("repair", reply)
            if reply.outcome is Outcome.ACKNOWLEDGED:
                return

    def _change_items(
        self,
        kind: str,
        chance: random.Random,
        send: Callable[[str], WriterReply],
        read: Callable[[str], tuple[bool, int | None]] | None = None,
    ) -> None:
        """Insert, update and delete items of this writer, and read some of them back."""
        number = 0
        mine: dict[str, int | None] = {}
        while self.runs:
            number += 1
            existing = [slug for slug, value in mine.items() if value is not None and self.oracle.is_certain(slug)]
            dice = chance.random()
            after: int | None = number
            if existing and dice < 0.2:
                slug, after = chance.choice(existing), None
                text = f'query m() {{ delete Item where slug = "{slug}" delete Tag where slug = "{slug}" }}'
            elif existing and dice < 0.5:
                slug = chance.choice(existing)
                text = f'query m() {{ update Item set {{ value: {number} }} where slug = "{slug}" }}'
            else:
                slug = f"{kind}-{self.number}-{number}"
                text = _insertion(slug, kind, number)
            attempt = self.oracle.begin({slug: after})
            reply = send(text)
            self._end(kind, attempt, reply)
            if reply.outcome is Outcome.ACKNOWLEDGED:
                mine[slug] = after
            certain = [name for name in mine if self.oracle.is_certain(name)]
            if read is not None and certain and chance.random() < 0.3:
                slug = chance.choice(certain)
                succeeded, value = read(slug)
                if succeeded:
                    self.oracle.count(f"{kind} read")
                    if {value} != self.oracle.states[slug]:
                        self.failures.append(f"VIOLATION: {kind} read {value} of {slug}: {self.oracle.states[slug]}")

    # Processes

    def _command(self, chance: random.Random, *arguments: str) -> WriterReply:
        """Run a command, and kill or stop it in a third of the cases: at a failpoint, or after a random time."""
        variables, dice = dict(self.variables), chance.random()
        if dice < 0.15:
            action = chance.choice(["kill", "kill", "stop"])
            variables[ENVIRONMENT_VARIABLE] = f"{chance.choice(DEATHS).value}@{chance.randint(1, 2)}={action}"
        reader, writer = os.pipe()
        with os.fdopen(reader) as stdout, (self.folder / f"{arguments[0]}.log").open("ab") as stderr:
            process = ForkedProcess([*arguments, "--json"], stdout=writer, stderr=stderr.fileno(), variables=variables)
            os.close(writer)
            name = f"{arguments[0]} {process.pid}"
            self.victims[name] = process.pid
            timers = []
            if 0.15 <= dice < 0.22:
                timers.append(_later(chance.uniform(0, 1.5), process.pid, signal.SIGKILL))
            elif 0.22 <= dice < 0.32:
                timers.append(_later(chance.uniform(0, 1.5), process.pid, signal.SIGSTOP))
            timers.append(_later(_pause(chance) + 1.5, process.pid, signal.SIGCONT))
            try:
                printed = stdout.read()
                code = process.wait(SECONDS_MAX)
            finally:
                del self.victims[name]
                for timer in timers:
                    timer.cancel()
                process.kill()
        if code < 0:
            return WriterReply(Outcome.UNKNOWN)
        try:
            document = json.loads(printed)
        except ValueError:
            raise RuntimeError(f"{arguments}: exit code {code}, printed {printed!r}") from None
        return self._reply(document, has_failed=code != 0)

    def _reply(self, document: Any, *, has_failed: bool = False) -> WriterReply:
        if "error_code" not in document:
            commit = document.get("commit")
            identifier = commit.get("graph_commit_id") if isinstance(commit, dict) else commit
            return WriterReply(Outcome.REJECTED if has_failed else Outcome.ACKNOWLEDGED, identifier)
        with self._lock:
            code = document["error_code"]
            self.errors[code] = self.errors.get(code, 0) + 1
        return WriterReply(_outcome(document.get("applied", "no")), error=f"{code}: {document.get('error')}")

    def _ask_worker(self, worker: Worker, request: protocol.WorkerRequest) -> protocol.WorkerAnswer | None:
        name = f"worker {id(worker)}"
        if worker.process is None or worker.process.poll() is not None:
            self.victims.pop(name, None)
        answer = worker.ask(request)
        assert worker.process is not None
        self.victims[name] = worker.process.pid
        if worker.process.poll() is not None or not self.runs:
            self.victims.pop(name, None)
        return answer

    def _ask(self, worker: Worker, request: protocol.WorkerRequest) -> WriterReply:
        answer = self._ask_worker(worker, request)
        if answer is None:
            return WriterReply(Outcome.UNKNOWN)
        if answer.error:
            with self._lock:
                code = answer.error.partition(":")[0]
                self.errors[code] = self.errors.get(code, 0) + 1
            return WriterReply(_outcome(answer.applied), error=answer.error)
        return WriterReply(Outcome.ACKNOWLEDGED, answer.commit)

    def _serve(self, chance: random.Random) -> None:
        """Keep a server running: the killer ends it, and this starts it again."""
        variables = {**self.variables, "OMNIGRAPH_UNAUTHENTICATED": "1"}
        while self.runs:
            reader, writer = os.pipe()
            with os.fdopen(reader) as stdout, (self.folder / "server.log").open("ab") as stderr:
                arguments = ["serve", self.uri, "--bind", "127.0.0.1:0"]
                process = ForkedProcess(arguments, stdout=writer, stderr=stderr.fileno(), variables=variables)
                os.close(writer)
                self.victims["server"] = process.pid
                try:
                    address = stdout.readline().strip().partition("=")[2]
                    self.server_url = f"http://{address}" if address else ""
                    process.wait(SECONDS_MAX)
                finally:
                    self.server_url = ""
                    self.victims.pop("server", None)
                    process.kill()

    def _kill(self, chance: random.Random) -> None:
        """Kill or stop a process of the round at random times."""
        while self.runs:
            SYSTEM_CLOCK.sleep(chance.uniform(0.5, 4.0))
            victims = sorted(self.victims.items())
            if not victims:
                continue
            name, pid = chance.choice(victims)
            if chance.random() < 0.3:
                _signal(pid, signal.SIGKILL)
                self.oracle.count(f"SIGKILL {name.split()[0]}")
            else:
                _signal(pid, signal.SIGSTOP)
                _later(_pause(chance), pid, signal.SIGCONT)
                self.oracle.count(f"SIGSTOP {name.split()[0]}")

    def _end(self, kind: str, attempt: Attempt, reply: WriterReply) -> None:
        self.oracle.end(attempt, reply.outcome, reply.commit)
        self._count(kind, reply)

    def _count(self, kind: str, reply: WriterReply) -> None:
        self.oracle.count(kind, reply.outcome)


def _outcome(applied: str) -> Outcome:
    return {"yes": Outcome.ACKNOWLEDGED, "no": Outcome.REJECTED}.get(applied, Outcome.UNKNOWN)


def _pause(chance: random.Random) -> float:
    """Return the seconds of a stop; one of thirty is longer than a lease."""
    return chance.uniform(31, 40) if chance.random() < 0.03 else chance.uniform(0.05, 4)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _later(seconds: float, pid: int, number: int) -> threading.Timer:
    timer = threading.Timer(seconds, _signal, (pid, number))
    timer.daemon = True
    timer.start()
    return timer


def _insertion(slug: str, writer: str, value: int) -> str:
    item = f'insert Item {{ slug: "{slug}", writer: "{writer}", value: {value} }}'
    return f'query m() {{ {item} insert Tag {{ slug: "{slug}" }} insert Tagged {{ from: "{slug}", to: "{slug}" }} }}'


def _lines(slug: str, value: int) -> str:
    item = {"type": "Item", "data": {"slug": slug, "writer": "load", "value": value}}
    edge = {"edge": "Tagged", "from": slug, "to": slug, "data": {}}
    return "".join(json.dumps(line) + "\n" for line in (item, {"type": "Tag", "data": {"slug": slug}}, edge))


@dataclass(slots=True)
class Report:
    """The figures of a run."""

    seed: str
    rounds: int = 0
    checks: int = 0
    faulty_requests: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def add(self, counts: Mapping[str, int], errors: Mapping[str, int]) -> None:
        for total, part in ((self.counts, counts), (self.errors, errors)):
            for name, number in part.items():
                total[name] = total.get(name, 0) + number

    def render(self) -> str:
        lines = [f"seed {self.seed}, {self.rounds} rounds, {self.faulty_requests} faulty requests of S3"]
        lines += [f"  {name}: {number:,}" for name, number in sorted(self.counts.items())]
        lines += [f"  error {name}: {number:,}" for name, number in sorted(self.errors.items())]
        lines += [f"{len(self.violations)} violations", *self.violations]
        return "\n".join(lines)


def run_chaos(seconds: float, seed: str, folder: Path, round_seconds: float = ROUND_SECONDS) -> Report:
    """Run rounds until the time is over, but at least one on disk and one on S3, or until the first violation."""
    report, end = Report(seed), SYSTEM_CLOCK.monotonic() + seconds
    chance = random.Random(seed)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OMNIGRAPH_"))}
    base = {**inherited, "OMNIGRAPH_HOME": str(folder / "home"), "OMNIGRAPH_RUNNER": "local", "LANCE_LOG": "error"}
    with ExitStack() as stack:
        server = stack.enter_context(running_s3_server(folder))
        proxy = stack.enter_context(LossyProxy(server, random.Random(f"{seed} proxy")).running())
        assert isinstance(proxy, LossyProxy)
        aws = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        graphs: dict[bool, tuple[str, Oracle]] = {}
        while (SYSTEM_CLOCK.monotonic() < end or report.rounds < 2) and not report.violations:
            on_s3 = report.rounds % 2 == 1
            direct = {**base, **aws, "AWS_ENDPOINT_URL": server.endpoint} if on_s3 else base
            if on_s3 not in graphs or report.rounds // 2 % ROUNDS_PER_GRAPH == 0:
                name = f"{report.rounds:04d}.omni"
                uri = f"s3://{server.bucket}/{name}" if on_s3 else str(folder / name)
                _initialize(uri, folder, direct)
                graphs[on_s3] = uri, Oracle()
            uri, oracle = graphs[on_s3]
            oracle.counts.clear()
            seconds_left = max(round_seconds / 2, end - SYSTEM_CLOCK.monotonic())
            chaos = Round(
                uri=uri,
                variables={**direct, "AWS_ENDPOINT_URL": proxy.endpoint} if on_s3 else base,
                oracle=oracle,
                folder=folder,
                seed=seed,
                deadline=SYSTEM_CLOCK.monotonic() + min(round_seconds, seconds_left),
                number=report.rounds,
                has_disk_faults=not on_s3,
            )
            proxy.is_lossy = True
            chaos.run()
            report.rounds += 1
            report.violations += chaos.failures
            proxy.drain()
            inspector = Worker(uri, direct)
            answer = inspector.ask(protocol.Inspect(unverified=chance.choice(["publish", "discard"])))
            inspector.kill()
            if answer is None or answer.inspection is None:
                report.violations.append(f"the inspection of {uri} failed: {answer}")
            else:
                report.violations += [f"{uri}: {violation}" for violation in oracle.check(answer.inspection)]
            report.add(oracle.counts, chaos.errors)
            report.faulty_requests = proxy.faults
            acknowledged = sum(n for name, n in oracle.counts.items() if name.endswith(" acknowledged"))
            print(f"round {report.rounds}: {uri}, {acknowledged} acknowledged", flush=True)  # noqa: T201
    return report


def _initialize(uri: str, folder: Path, variables: Mapping[str, str]) -> None:
    (folder / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "omnigraph.cli.main",
        "init",
        "--quiet",
        "--schema",
        str(folder / "schema.pg"),
        uri,
    ]
    subprocess.run(command, env=dict(variables), check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Run, print the report, and fail if there is a violation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3_600.0)
    parser.add_argument("--seed", default=str(time.time_ns()))
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-chaos-"))
    print(f"seed {arguments.seed}, graphs in {folder}", flush=True)  # noqa: T201
    report = run_chaos(arguments.seconds, arguments.seed, folder)
    print(report.render())  # noqa: T201
    sys.exit(1 if report.violations else 0)


if __name__ == "__main__":
    main()
