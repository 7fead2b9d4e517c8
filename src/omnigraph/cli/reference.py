"""Prints the reference of the command line as Markdown, from the commands themselves: docs/user/cli.md.

python -m omnigraph.cli.reference > docs/user/cli.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from typer.core import TyperGroup

from omnigraph.cli.app import make_command
from omnigraph.cli.capabilities import describe_capabilities

_HEAD: Final = """\
# Command line

Generated from the code: change a command's docstring or flags, then run
`python -m omnigraph.cli.reference > docs/user/cli.md`.

- **Graphs.** `URI` is a local path, `file:///path` or `s3://bucket/prefix`. A positional `URI` and `--store URI` mean
  the same. S3 reads the usual `AWS_…` variables, with `AWS_ENDPOINT_URL` for other stores.
- **Output.** Data goes to stdout and everything else to stderr. `--json` prints exactly one JSON document; when the
  command fails that document is the error (see [errors](errors.md)). Where rows are shown, `--format` takes `table`,
  `json`, `jsonl`, `csv` or `kv`. A table fits the terminal; elsewhere it is plain aligned text.
- **Exit codes.** 0 done, 1 error, 2 usage, 3 refused, 4 precondition failed, 130 Ctrl-C, 143 SIGTERM.
- **Writes and maintenance** tell their target on stderr before they start, unless `--quiet`.
"""


def print_reference() -> None:
    """Write the whole reference to stdout."""
    root = make_command()
    sys.stdout.write(_HEAD + "".join((*describe_capabilities(root), *_describe("omnigraph", root))))


def _describe(name: str, command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for below, child in command.commands.items():
            yield from _describe(f"{name} {below}", child)
        return
    yield f"\n## {name}\n\n{_paragraphs(command.help)}\n\n```\n{_usage(name, command)}\n```\n\n"
    yield "| argument | meaning |\n|---|---|\n"
    for parameter in command.params:
        yield f"| {_words(parameter)} | {_meaning(parameter)} |\n"
    examples = command.epilog.partition("Examples:\n")[2]
    yield "\n```\n" + "\n".join(line.strip() for line in examples.splitlines()) + "\n```\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _usage(name: str, command: Any) -> str:
    words = [_words(parameter).replace("`", "") for parameter in command.params if _is_argument(parameter)]
    required = [
        f"{parameter.opts[0]} {parameter.metavar}"
        for parameter in command.params
        if parameter.required and not _is_argument(parameter)
    ]
    return " ".join([name, *required, "[OPTIONS]", *words])


def _words(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{parameter.metavar}`"
    names = ", ".join(sorted(parameter.opts, reverse=True))
    choices = getattr(parameter.type, "choices", None)
    value = "|".join(str(getattr(c, "value", c)) for c in choices) if choices else parameter.metavar or ""
    value = value.replace("|", "\\|")
    return f"`{names}" + ("`" if parameter.is_flag or not value else f" {value}`")


def _meaning(parameter: Any) -> str:
    default = parameter.default
    shown = default not in (None, False) and not _is_argument(parameter)
    return str(parameter.help) + (f" Default: `{default}`." if shown else "")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


if __name__ == "__main__":
    print_reference()
