"""The process edge: arguments come in, an exit code goes out, and no exception passes.

Typer and everything above it is imported inside `main`, so that Ctrl-C is answered with one line from the start.
SIGTERM is turned into the same exception as Ctrl-C, so that whatever was under way cleans up behind itself.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.cli.flags import Flags

BROKEN_PIPE_EXIT_CODE = 128 + 13


def main() -> None:
    """Run one command and end the process."""
    received: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    # Imports make many objects and no garbage; looking for it is a tenth of the start.
    gc.set_threshold(100_000, 50, 100)
    try:
        _prepare_streams()
        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        exit_code = 128 + (received[0] if received else signal.SIGINT)
    except BrokenPipeError:
        exit_code = BROKEN_PIPE_EXIT_CODE
    _close_stdout()
    sys.exit(exit_code)


def run(arguments: list[str]) -> int:
    """Run one command in this process; its exit code."""
    from omnigraph.cli.flags import read_flags
    from omnigraph.cli.renamed import use_one_name

    flags = read_flags(arguments)
    return _invoke(use_one_name(arguments, flags), flags)


def _invoke(arguments: list[str], flags: Flags) -> int:
    """Parse and run; every error becomes a message and an exit code."""
    import typer

    from omnigraph.base.errors import OmnigraphError
    from omnigraph.cli.app import make_command
    from omnigraph.cli.errors import exit_code, show_defect, show_error
    from omnigraph.cli.usage import explain_usage

    _log_to_stderr()
    try:
        command = make_command()
        with command.make_context("omnigraph", arguments or ["--help"], obj=flags) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as misuse:
        error: OmnigraphError = explain_usage(misuse)
    except OmnigraphError as raised:
        error = raised
    except BrokenPipeError:
        raise
    except Exception as defect:
        return show_defect(defect, flags)
    else:
        return 0
    show_error(error, flags)
    return exit_code(error)


def _log_to_stderr() -> None:
    """Our own warnings are for the user; what libraries log, tracebacks of a Ctrl-C among it, is not."""
    import logging

    ours = logging.getLogger("omnigraph")
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        ours.addHandler(handler)
        logging.getLogger().addHandler(logging.NullHandler())


def _prepare_streams() -> None:
    """Print the same bytes whatever the locale; what is no text at all, a strange file name, is escaped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # until the end
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Python writes what is left in its buffer when it ends. If that cannot be, let it go nowhere without a word."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
