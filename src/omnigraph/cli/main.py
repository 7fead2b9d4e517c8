"""The process edge: arguments come in, an exit code goes out, and no exception passes.

Typer and everything above it is imported inside `main`, so that Ctrl-C is answered with one line from the start.
SIGTERM is turned into the same exception as Ctrl-C, so that whatever was under way cleans up behind itself. The process
ends without taking the interpreter down piece by piece: a thread of a library that still runs could keep it waiting.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Final, NoReturn

from omnigraph.cli.options import Flags

BROKEN_PIPE_EXIT_CODE = 128 + 13
INTERRUPT_AGAIN_SECONDS: Final = 0.05


def main() -> None:
    """Run one command and end the process."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _interrupt_again
    # Lance logs retries that succeed as warnings. It reads the variable when it is imported, and so do Spark's workers.
    os.environ.setdefault("LANCE_LOG", "error")
    # Imports make many objects and no garbage; looking for it is a tenth of the start.
    gc.set_threshold(100_000, 50, 100)
    try:
        _prepare_streams()
        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        exit_code = 128 + (_RECEIVED[0] if _RECEIVED else signal.SIGINT)
    except BrokenPipeError:
        exit_code = BROKEN_PIPE_EXIT_CODE
    _close_stdout()
    _end(exit_code)


_RECEIVED: Final[list[int]] = []
"""The signals that this process got."""


def _interrupt(number: int, _: FrameType | None) -> None:
    _RECEIVED.append(number)
    raise KeyboardInterrupt


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """A signal that arrives while an object is taken down would be forgotten, and the command would go on."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    from threading import Timer

    again = Timer(INTERRUPT_AGAIN_SECONDS, signal.raise_signal, (_RECEIVED[-1],))
    again.daemon = True
    again.start()


def run(arguments: list[str]) -> int:
    """Run one command in this process; its exit code."""
    from omnigraph.cli.options import read_flags

    flags = read_flags(arguments)
    return _invoke(use_one_name(arguments, flags), flags)


def _invoke(arguments: list[str], flags: Flags) -> int:
    """Parse and run; every error becomes a message and an exit code."""
    import typer

    from omnigraph.base.errors import OmnigraphError
    from omnigraph.cli.app import make_command
    from omnigraph.cli.errors import exit_code, explain_usage, show_defect, show_error

    _log_to_stderr(quiet=flags.quiet)
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
        if _RECEIVED:  # what was interrupted fails as it can
            raise KeyboardInterrupt from defect
        return show_defect(defect, flags)
    else:
        return 0
    show_error(error, flags)
    return exit_code(error)


def _log_to_stderr(*, quiet: bool) -> None:
    """Our own warnings are for the user; what libraries log, tracebacks of a Ctrl-C among it, is not."""
    import logging

    ours = logging.getLogger("omnigraph")
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        handler.addFilter(lambda record: not getattr(record, "in_result", False))
        ours.addHandler(handler)
        logging.getLogger().addHandler(logging.NullHandler())
    for one in ours.handlers:
        one.setLevel(logging.ERROR if quiet else logging.WARNING)


def _prepare_streams() -> None:
    """Print the same bytes whatever the locale; what is no text at all, a strange file name, is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Python writes what is left in its buffer when it ends. If that cannot be, let it go nowhere without a word."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(exit_code: int) -> NoReturn:
    """Do what is to be done at the end of a process, and end it; a second Ctrl-C only makes that shorter."""
    try:
        atexit._run_exitfuncs()
        sys.stderr.flush()
    except (KeyboardInterrupt, OSError):
        pass
    finally:
        os._exit(exit_code)


def use_one_name(arguments: list[str], flags: Flags) -> list[str]:
    """The arguments with `lint` for `check`, `query lint` and `query check`; the latter two are warned about."""
    match arguments:
        case ["check", *rest]:
            return ["lint", *rest]
        case ["query", "lint" | "check" as word, *rest]:
            if not flags.quiet:
                sys.stderr.write(f"warning: `omnigraph query {word}` is an old name of `omnigraph lint`\n")
            return ["lint", *rest]
        case _:
            return arguments


if __name__ == "__main__":
    main()
