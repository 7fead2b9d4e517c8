"""The entry point of the process. In: arguments. Out: an exit code; every exception becomes an error message.

Typer and the commands are imported inside `main`, so that Ctrl-C prints one line from the start. SIGTERM raises the
same exception as Ctrl-C, so that an interrupted command deletes its temporary files. The process ends with `os._exit`,
because a running thread of a library could block the normal end of the interpreter.
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

from omnigraph.base.interrupts import MAY_BE_COMMITTED, commit_started, received_signals
from omnigraph.cli.flags import Flags, parse_flags
from omnigraph.cli.pandas_import import hide_pandas

BROKEN_PIPE_EXIT_CODE: Final = 128 + signal.SIGPIPE
INTERRUPT_AGAIN_SECONDS: Final = 0.05
WRITING_COMMANDS: Final = frozenset(
    {
        *("load", "mutate", "embed", "optimize", "repair", "cleanup", "schema apply", "commit revert"),
        *("branch create", "branch delete", "branch merge"),
    }
)
"""Commands that change a graph only through the write path."""
INTERRUPT_SLOW_SECONDS: Final = 1.0


def main() -> None:
    """Run one command and end the process."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _interrupt_again
    # Lance logs retries that succeed as warnings. It reads the variable when it is imported, and so do Spark's workers.
    os.environ.setdefault("LANCE_LOG", "error")
    # The threads that OpenBLAS starts when NumPy is imported wait in a busy loop, and no command multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imports create many objects but no garbage: with the default, the collector takes a tenth of the start-up time. A
    # short mutation creates 115,000 objects, and one collection of them takes 30 ms.
    gc.set_threshold(250_000, 50, 100)
    hide_pandas()
    try:
        _prepare_streams()
        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        left = describe_interrupted(sys.argv[1:], interrupt)
        sys.stderr.write(": ".join(["interrupted", *left]) + "\n")
        # The first signal sets the exit code: later ones only repeat the request.
        exit_code = 128 + (received_signals[0] if received_signals else signal.SIGINT)
    except BrokenPipeError:
        exit_code = BROKEN_PIPE_EXIT_CODE
    _flush_stdout()
    _end(exit_code)


def describe_interrupted(arguments: list[str], interrupt: KeyboardInterrupt) -> list[str]:
    """Return what an interrupted command left: the notes of the operation, or what the write path noted."""
    names = {*arguments[:1], " ".join(arguments[:2])}
    if "maintain" in names or ("cleanup" in names and "--confirm" in arguments):
        return ["run it again to continue"]
    notes = [*getattr(interrupt, "__notes__", ())]
    if notes and MAY_BE_COMMITTED not in notes:
        return notes
    if names.isdisjoint(WRITING_COMMANDS):
        return []
    if commit_started.is_set():
        return ["the write may have been committed: see `omnigraph commit list`"]
    return ["nothing was written"]


def serve() -> None:
    """Run `omnigraph serve`: the entry point of `omnigraph-server`."""
    sys.argv.insert(1, "serve")
    main()


def _interrupt(number: int, _: FrameType | None) -> None:
    if not received_signals and sys.stderr.isatty():
        from threading import Timer

        text = b"interrupting: the running tasks end first; press Ctrl-C again to stop immediately\n"
        timer = Timer(INTERRUPT_SLOW_SECONDS, os.write, (sys.stderr.fileno(), text))
        timer.daemon = True
        timer.start()
    received_signals.append(number)
    raise KeyboardInterrupt


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a signal again if Python ignored its exception, which it does inside a finalizer of an object."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    from threading import Timer

    timer = Timer(INTERRUPT_AGAIN_SECONDS, signal.raise_signal, (received_signals[-1],))
    timer.daemon = True
    timer.start()


def run(arguments: list[str]) -> int:
    """Run one command in this process and return its exit code."""
    flags = parse_flags(arguments)
    return _invoke(resolve_aliases(arguments, flags), flags)


def resolve_aliases(arguments: list[str], flags: Flags) -> list[str]:
    """Replace `check`, `query lint` and `query check` by `lint`, and `help` and `--version` by what they mean."""
    match arguments:
        case ["help", *names]:
            return [*names, "--help"]
        case ["--version" | "-V", *rest]:
            return ["version", *rest]
        case ["check", *rest]:
            return ["lint", *rest]
        case ["query", "lint" | "check" as name, *rest]:
            if not flags.quiet:
                sys.stderr.write(f"warning: `omnigraph query {name}` was renamed to `omnigraph lint`\n")
            return ["lint", *rest]
        case _:
            return arguments


def _invoke(arguments: list[str], flags: Flags) -> int:
    """Parse the arguments and run the command. Every error becomes a message and an exit code."""
    import typer

    from omnigraph.base.errors import OmnigraphError
    from omnigraph.cli.app import make_command
    from omnigraph.cli.errors import exit_code, explain_usage, show_defect, show_error

    _log_to_stderr(quiet=flags.quiet)
    try:
        command = make_command()
        with command.make_context("omnigraph", arguments or ["--help"], obj=flags) as context:
            command.invoke(context)
    except typer.Exit as exit_request:
        return exit_request.exit_code
    except typer.TyperException as usage_error:
        error: OmnigraphError = explain_usage(usage_error)
    except OmnigraphError as omnigraph_error:
        error = omnigraph_error
    except BrokenPipeError:
        raise
    except Exception as defect:
        if received_signals:  # an interrupted library may raise any exception
            raise KeyboardInterrupt from defect
        return show_defect(defect, flags)
    else:
        return 0
    show_error(error, flags)
    return exit_code(error)


def _log_to_stderr(*, quiet: bool) -> None:
    """Print the warnings of Omnigraph on stderr, but not the logs of libraries, such as tracebacks of Ctrl-C."""
    import logging

    logger = logging.getLogger("omnigraph")
    if not logger.handlers:
        stream_handler = logging.StreamHandler()
        stream_handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        stream_handler.addFilter(lambda record: not getattr(record, "in_result", False))
        logger.addHandler(stream_handler)
        logging.getLogger().addHandler(logging.NullHandler())
    for handler in logger.handlers:
        handler.setLevel(logging.ERROR if quiet else logging.WARNING)


def _prepare_streams() -> None:
    """Use UTF-8 in every locale; escape what is not valid text, such as some file names. Replace closed streams."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent process started this one without the stream
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # used until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _flush_stdout() -> None:
    """Flush stdout. If that fails, discard the rest, so that Python does not report it again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(exit_code: int) -> NoReturn:
    """Run the exit functions and end the process. A second Ctrl-C skips the remaining exit functions."""
    try:
        atexit._run_exitfuncs()
        sys.stderr.flush()
    except (KeyboardInterrupt, OSError):
        pass
    finally:
        os._exit(exit_code)


if __name__ == "__main__":
    main()
