"""Prints changes of entities: lines for people, or JSON documents of `wire.changes`.

In: an iterator of changes. Out: text on stdout, written while the changes are read, so that memory does not grow with
their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from omnigraph.cli.output import RowsFormat, printable, write_json_text, write_text

if TYPE_CHECKING:
    from omnigraph.graph.entity_changes import EntityChange

_SIGNS: Final = {"inserted": "+", "updated": "~", "deleted": "-"}
_LINES_PER_WRITE: Final = 1_000


def change_json(change: EntityChange) -> str:
    """Return a change as JSON text."""
    from omnigraph.wire.changes import entity_change_output

    return to_json(entity_change_output(change))


def to_json(document: Any) -> str:
    """Return a document as one line of JSON."""
    import msgspec

    return json.dumps(msgspec.to_builtins(document), ensure_ascii=False)


def change_line(change: EntityChange) -> str:
    """Return a change as a line for people: its kind, the entity, and the properties that differ."""
    text = f"{_SIGNS[change.kind.value]} {change.table.partition(':')[2]} {_name(change)}"
    if change.before is None or change.after is None:
        return printable(text)
    before, after = _properties(change.before), _properties(change.after)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    differences = (f"{name} {_shorten(before.get(name))} → {_shorten(after.get(name))}" for name in names)
    return printable(f"{text}: {', '.join(differences)}")


def _name(change: EntityChange) -> str:
    """Return the id of a node, or the endpoints and the id of an edge."""
    entity = change.after or change.before or {}
    return f"{entity['from']} → {entity['to']} ({change.id})" if "from" in entity else change.id


def write_lines(lines: Iterable[str], *, as_json: bool = False) -> None:
    """Print lines while they are read, 1,000 per write. `as_json`: the lines are JSON."""
    write = write_json_text if as_json else write_text
    iterator = iter(lines)
    while batch := list(islice(iterator, _LINES_PER_WRITE)):
        write("\n".join(batch))


def document_lines(head: dict[str, Any], name: str, items: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a JSON document whose last member is a list of `items`, which are JSON text."""
    import msgspec

    opening = json.dumps(msgspec.to_builtins(head), indent=2, ensure_ascii=False).removesuffix("\n}")
    yield f"{opening},\n  {json.dumps(name)}: ["
    before = None
    for item in chain(items, [None]):
        if before is not None:
            yield f"    {before}{'' if item is None else ','}"
        before = item
    yield "  ]\n}"


def write_changes(head: dict[str, Any], changes: Iterator[EntityChange], rows_format: RowsFormat) -> None:
    """Print changes: a document that begins with `head`, lines of JSON, or lines for people."""
    if rows_format is RowsFormat.JSON:
        write_lines(document_lines(head, "changes", map(change_json, changes)), as_json=True)
    elif rows_format is RowsFormat.JSONL:
        write_lines(map(change_json, changes), as_json=True)
    else:
        write_lines(map(change_line, changes))


def _properties(entity: dict[str, Any]) -> dict[str, Any]:
    endpoints = {name: entity[name] for name in ("from", "to") if name in entity}
    return {**endpoints, **entity["data"]}


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"
