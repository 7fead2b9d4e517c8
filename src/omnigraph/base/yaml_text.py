"""Reads YAML strictly: no duplicate keys, no anchors, no tags; only mappings, lists, text, numbers, booleans and null.

PyYAML is imported here and nowhere else, and only when a file is read, because it takes 30 ms.
"""

from __future__ import annotations

from typing import Any

from omnigraph.base.errors import UsageError


def read_yaml(text: str, source: str) -> Any:
    """Return the value of a YAML text; raise with the position of what is not allowed."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """A loader that rejects duplicate keys and anchors."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if getattr(event, "anchor", None) is not None:  # an alias has the anchor that it refers to
                raise _invalid(source, event.start_mark, "anchors and aliases are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, str):
                    raise _invalid(source, key_node.start_mark, f"expected text as a key, got {key!r}")
                if key in keys:
                    raise _invalid(source, key_node.start_mark, f"duplicate key '{key}'")
                keys.add(key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, StrictLoader)  # a subclass of `SafeLoader`
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _invalid(source, mark, getattr(error, "problem", None) or "invalid YAML") from error


def _invalid(source: str, mark: Any, reason: str) -> UsageError:
    position = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
    return UsageError(f"{source}{position}: {reason}", code="yaml_invalid", hint="Correct the file.")
