"""How changes of entities are printed: lines for people, or JSON that is written while the changes come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.cli.output import RowsFormat, choose_format, printable, write_json_text, write_text

if TYPE_CHECKING:
    from omnigraph.graph.entity_changes import EntityChange

_SIGNS: Final = {"inserted": "+", "updated": "~", "deleted": "-"}
_LINES_AT_ONCE: Final = 1_000


class ChangesFormat(StrEnum):
    """The ways to print changes: their images fit lines for people, JSON and lines of JSON."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


Format = Annotated[
    ChangesFormat | None,
    typer.Option("--format", help="How to print the changes; lines for people unless given."),
]


def choose_changes_format(wanted: ChangesFormat | None, as_json: bool) -> RowsFormat:
    """`--json` is short for `--format json`; raise when the two disagree."""
    return choose_format(None if wanted is None else RowsFormat(wanted.value), as_json)


def change_to_json(change: EntityChange) -> dict[str, Any]:
    """One change, with its images."""
    return {
        "table_key": change.table,
        "table_id": change.table_id,
        "type_name": change.table.partition(":")[2],
        "id": change.id,
        "change": change.kind.value,
        "before": change.before,
        "after": change.after,
    }


def change_line(change: EntityChange) -> str:
    """One change for people: what happened, to whom, and which properties differ."""
    text = f"{_SIGNS[change.kind.value]} {change.table.partition(':')[2]} {_name(change)}"
    if change.before is None or change.after is None:
        return printable(text)
    before, after = _properties(change.before), _properties(change.after)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    told = (f"{name} {_shown(before.get(name))} → {_shown(after.get(name))}" for name in names)
    return printable(f"{text}: {', '.join(told)}")


def _name(change: EntityChange) -> str:
    """The id; before that of an edge the nodes that it joins, as its own id says nothing to people."""
    image = change.after or change.before or {}
    return f"{image['from']} → {image['to']} ({change.id})" if "from" in image else change.id


def write_lines(lines: Iterable[str], *, as_json: bool = False) -> None:
    """Print lines as they come, many at a time; `as_json` says that they are JSON."""
    write = write_json_text if as_json else write_text
    waiting: list[str] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) >= _LINES_AT_ONCE:
            write("\n".join(waiting))
            waiting = []
    if waiting:
        write("\n".join(waiting))


def document_lines(head: dict[str, Any], name: str, items: Iterable[str]) -> Iterator[str]:
    """A JSON document whose last member is a list that is written while its items, JSON texts, come."""
    opening = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    yield f"{opening},\n  {json.dumps(name)}: ["
    before = None
    for item in chain(items, [None]):
        if before is not None:
            yield f"    {before}{'' if item is None else ','}"
        before = item
    yield "  ]\n}"


def write_changes(head: dict[str, Any], changes: Iterator[EntityChange], how: RowsFormat) -> None:
    """Print changes: a document that begins with `head`, lines of JSON, or lines for people."""
    if how is RowsFormat.JSON:
        texts = (json.dumps(change_to_json(change), ensure_ascii=False) for change in changes)
        write_lines(document_lines(head, "changes", texts), as_json=True)
    elif how is RowsFormat.JSONL:
        write_lines(
            (json.dumps(change_to_json(change), ensure_ascii=False) for change in changes), as_json=True
        )
    else:
        write_lines(map(change_line, changes))


def _properties(image: dict[str, Any]) -> dict[str, Any]:
    ends = {name: image[name] for name in ("from", "to") if name in image}
    return {**ends, **image["data"]}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"
