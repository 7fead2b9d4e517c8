"""`omnigraph` as a process that starts at once: a fork of a server that has imported everything and opened nothing.

`forked_omnigraph()` is a program that behaves like the installed `omnigraph`: it passes its arguments, directory,
variables and streams to the server, which forks a process for them, and ends as that one ends. A new interpreter needs
a second for what a fork has already. The server's forks start without threads, because it never opens a dataset.
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
from functools import cache
from pathlib import Path
from select import select
from tempfile import mkdtemp
from typing import Final

_STREAMS: Final = 3
_BYTES_MAX: Final = 1 << 20
_PROGRAM: Final = """\
#!{python} -IS
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect({address!r})
words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(door, [len(words).to_bytes(4, "big")], [0, 1, 2])
door.sendall(words)
answer = door.recv(16)
code = int(answer) if answer else 1
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def forked_omnigraph() -> str:
    """The path of the program. The server ends with this process."""
    folder = Path(mkdtemp(prefix="og-"))
    address = folder / "door"
    program = folder / "omnigraph"
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
        folder.rmdir()

    atexit.register(end)
    return str(program)


def serve(address: str) -> None:
    """Fork for every connection until the one who started this is gone."""
    _import_everything()
    door = socket.socket(socket.AF_UNIX)
    door.bind(address)
    door.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    warnings.simplefilter("ignore")  # Lance warns of forks because of its threads; there are none yet
    while sys.stdin not in select([door, sys.stdin], [], [])[0]:
        client, _ = door.accept()
        if os.fork() == 0:
            door.close()
            _answer(client)
        client.close()


def _import_everything() -> None:
    """What commands import, so that no fork has to; and none of what starts threads."""
    import pyarrow.compute  # noqa: F401
    import rich.console
    import rich.table  # noqa: F401

    from omnigraph.cli.app import make_command

    def build(group: object) -> None:
        for name in getattr(group, "commands", ()):
            build(group.commands[name])  # type: ignore[attr-defined]  # it has them

    build(make_command())


def _answer(client: socket.socket) -> None:
    """Run the command in a process of its own and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(client, 4, _STREAMS)
    words = b""
    while len(words) < int.from_bytes(size, "big"):
        words += client.recv(_BYTES_MAX)
    child = os.fork()
    if child == 0:
        client.close()
        _become(streams, *json.loads(words))
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(streams: list[int], arguments: list[str], directory: str, variables: dict[str, str]) -> None:
    """The command itself, with the caller's streams, directory and variables."""
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
    atexit._clear()  # what the server registered waits for threads that a fork has not got
    sys.argv = ["omnigraph", *arguments]
    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
