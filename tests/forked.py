"""`omnigraph` as a process that starts fast: a fork of a server that has imported all modules and opened no dataset.

`forked_omnigraph()` is a program that behaves like the installed `omnigraph`: it passes its arguments, directory,
variables and streams to the server, which forks a process for them, and exits like that process. If it is killed, that
process gets SIGTERM. `ForkedProcess` starts such a process without the program in between, for tests that need its id.
A new interpreter needs a second for the imports. The server's forks start without threads, because it never opens a
dataset.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from select import select
from tempfile import mkdtemp
from typing import Final

from tests.waiting import SECONDS_MAX

_STREAMS: Final = 3
_BYTES_MAX: Final = 1 << 20
_PROGRAM: Final = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
server.sendall(request)
_, _, response = server.makefile("r").read().partition("\\n")
code = int(response) if response else 1
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def forked_omnigraph() -> str:
    """Start the server, which ends with this process; return the path of the program."""
    directory = Path(mkdtemp(prefix="og-"))
    address = directory / "socket"
    program = directory / "omnigraph"
    program.write_text(_PROGRAM.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def end() -> None:
        server.kill()
        for path in (address, program):
            path.unlink(missing_ok=True)
        directory.rmdir()

    atexit.register(end)
    return str(program)


class ForkedProcess:
    """A command in a process of the server, with the methods of `subprocess.Popen` that tests of servers use."""

    def __init__(self, arguments: list[str], *, stdout: int, stderr: int, variables: dict[str, str]) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(str(Path(forked_omnigraph()).with_name("socket")))
        request = json.dumps([arguments, str(Path.cwd()), variables]).encode()
        with Path(os.devnull).open() as stdin:
            socket.send_fds(self._server, [len(request).to_bytes(4, "big")], [stdin.fileno(), stdout, stderr])
        self._server.sendall(request)
        self._reports = self._server.makefile("r")
        self.pid = int(self._reports.readline())
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float) -> int:
        """Return the exit code; negative: the signal that killed the process."""
        if self._code is None:
            self._server.settimeout(seconds)
            self._code = int(self._reports.read())
        return self._code

    def kill(self) -> None:
        """Kill the process if it runs, and wait for its end."""
        if self._code is None:
            with suppress(ProcessLookupError):
                self.send_signal(signal.SIGKILL)
            self.wait(SECONDS_MAX)
        self._reports.close()
        self._server.close()


def serve(address: str) -> None:
    """Fork for every connection until the process that started this one ends."""
    _import_modules()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    warnings.simplefilter("ignore")  # Lance warns of forks because of its threads, which do not exist yet
    while sys.stdin not in select([listener, sys.stdin], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _serve_client(client)
        client.close()


def _import_modules() -> None:
    """Import what commands import, so that forks need not; but nothing that starts threads."""
    import pyarrow.compute  # noqa: F401
    import rich.console
    import rich.table  # noqa: F401
    import uvicorn.lifespan.off
    import uvicorn.loops.asyncio
    import uvicorn.protocols.http.httptools_impl  # noqa: F401

    import omnigraph.server.process  # noqa: F401
    from omnigraph.cli.app import make_command

    def build(group: object) -> None:
        for name in getattr(group, "commands", ()):
            build(group.commands[name])  # type: ignore[attr-defined]  # a group has commands

    build(make_command())


def _serve_client(client: socket.socket) -> None:
    """Run the command in a new process and report its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(client, 4, _STREAMS)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += client.recv(_BYTES_MAX)
    child = os.fork()
    if child == 0:
        client.close()
        _run_command(streams, *json.loads(request))
    client.sendall(f"{child}\n".encode())
    for stream in streams:
        os.close(stream)
    # The end of the connection is the end of the program: the command, for example a server, ends too.
    watched: list[int | socket.socket] = [os.pidfd_open(child), client]
    if client in select(watched, [], [])[0]:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run_command(streams: list[int], arguments: list[str], directory: str, variables: dict[str, str]) -> None:
    """Run the command with the caller's streams, directory and variables."""
    from omnigraph.base import failpoints
    from omnigraph.cli.main import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(variables)
    failpoints._actions = failpoints._parse(variables.get(failpoints.ENVIRONMENT_VARIABLE, ""))
    os.chdir(directory)
    atexit._clear()  # the server's functions wait for threads that a fork does not have
    sys.argv = ["omnigraph", *arguments]
    code: object = 1
    try:
        main()
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
