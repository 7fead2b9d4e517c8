"""Reads YAML strictly: no duplicate keys, no anchors, no tags, no merge keys.

`read_yaml` returns plain values and raises at the first problem. `parse_yaml` returns nodes with lines, in which every
scalar is text (`no` and `12:30` are not booleans or times), and collects problems. PyYAML is imported here and nowhere
else, and only when a file is read, because it takes 30 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A text, a list or a mapping of a YAML file, with its position. An empty value is the text ''."""

    content: str | list[YamlNode] | dict[str, YamlNode]
    file: str
    line: int
    path: str
    """The keys and indexes that lead to the node, such as `rules[0].allow`; empty for the document."""


@dataclass(frozen=True, slots=True)
class YamlReader:
    """Reads nodes as the values that a file format requires. A value of another type is a problem."""

    code: str
    problems: Diagnostics

    def mapping(self, node: YamlNode | None) -> Mapping[str, YamlNode]:
        """Return the members of a mapping, whatever their names; an empty value is an empty mapping."""
        if node is None or node.content == "":
            return {}
        if isinstance(node.content, dict):
            return node.content
        self.problem(node, "expected a mapping")
        return {}

    def members(
        self, node: YamlNode | None, *, required: Collection[str] = (), optional: Collection[str] = ()
    ) -> Mapping[str, YamlNode]:
        """Return the members of a mapping with fixed names; an unknown or missing one is a problem."""
        members = self.mapping(node)
        if node is None:
            return members
        for name, member in members.items():
            if name not in required and name not in optional:
                names = ", ".join([*required, *optional])
                self.problem(member, f"unknown member: expected one of {names}")
        if isinstance(node.content, dict) or node.content == "":
            for name in required:
                if name not in members:
                    self.problem(node, f"the member '{name}' is missing")
        return {name: member for name, member in members.items() if name in required or name in optional}

    def items(self, node: YamlNode | None) -> list[YamlNode]:
        """Return the items of a list; an empty value is an empty list."""
        if node is None or node.content == "":
            return []
        if isinstance(node.content, list):
            return node.content
        self.problem(node, "expected a list")
        return []

    def text(self, node: YamlNode | None) -> str | None:
        """Return the text of a node. If it is blank or not text, add a problem and return None. No node: None."""
        if node is None:
            return None
        if isinstance(node.content, str) and node.content.strip():
            return node.content
        self.problem(node, "expected text" if not isinstance(node.content, str) else "the value is blank")
        return None

    def texts(self, node: YamlNode | None) -> list[tuple[str, YamlNode]]:
        """Return the texts of a list, each with its node."""
        pairs = [(self.text(item), item) for item in self.items(node)]
        return [(text, item) for text, item in pairs if text is not None]

    def problem(self, node: YamlNode, message: str, *, code: str | None = None) -> None:
        """Add a problem at the position of a node."""
        where = f"{node.path}: " if node.path else ""
        self.problems.error(code or self.code, node.file, node.line, f"{where}{message}")


def parse_yaml(text: str, source: str, reader: YamlReader) -> YamlNode | None:
    """Return the document of a YAML text with all scalars as text; None, with a problem, if it cannot be read."""
    import yaml

    def report(mark: Any, reason: str) -> None:
        reader.problems.error(reader.code, source, mark.line + 1, reason)

    try:
        root = yaml.compose(text, _strict_loader(yaml.BaseLoader, source, report))
        return YamlNode("", source, 1, "") if root is None else _make_node(root, source, "", reader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "invalid YAML"
        if reason.startswith("but "):  # the problem of a second document continues its context
            reason = f"{getattr(error, 'context', '')}, {reason}"
        reader.problems.error(reader.code, source, None if mark is None else mark.line + 1, reason)
    except RecursionError:
        reader.problems.error(reader.code, source, None, "the document is nested too deeply")
    return None


def read_yaml(text: str, source: str) -> Any:
    """Return the value of a YAML text; raise with the position of what is not allowed."""
    import yaml

    def refuse(mark: Any, reason: str) -> None:
        raise _invalid(source, mark, reason)

    base = _strict_loader(yaml.SafeLoader, source, refuse)

    class StrictLoader(base):  # type: ignore[misc,valid-type]
        """A safe loader that also rejects duplicate keys."""

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


def _strict_loader(base: Any, source: str, report: Callable[[Any, str], None]) -> Any:
    """Return a loader that reports anchors, aliases and tags: valid YAML that our files do not use."""
    import yaml

    class Loader(base):  # type: ignore[misc]
        name = source

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()
            if getattr(event, "anchor", None) is not None:  # an alias has the anchor that it refers to
                report(event.start_mark, "anchors and aliases are not allowed")
            if self.check_event(yaml.AliasEvent):
                self.get_event()  # a text in its place: nested aliases grow exponentially
                return yaml.ScalarNode("", f"*{event.anchor}", event.start_mark, event.end_mark)
            if getattr(event, "tag", None) is not None:
                report(event.start_mark, f"the tag '{event.tag}' is not allowed")
            return super().compose_node(parent, index)

    return Loader


def _make_node(node: Any, source: str, path: str, reader: YamlReader) -> YamlNode:
    line = node.start_mark.line + 1
    if node.id == "scalar":
        return YamlNode(node.value, source, line, path)
    if node.id == "sequence":
        items = [_make_node(item, source, f"{path}[{index}]", reader) for index, item in enumerate(node.value)]
        return YamlNode(items, source, line, path)
    members: dict[str, YamlNode] = {}
    for key, value in node.value:
        if key.id != "scalar":
            reader.problems.error(reader.code, source, key.start_mark.line + 1, "expected text as a key")
            continue
        if key.value in members or key.value == "<<":
            reason = "merge keys are not allowed" if key.value == "<<" else f"duplicate key '{key.value}'"
            reader.problems.error(reader.code, source, key.start_mark.line + 1, reason)
            continue
        child = _make_node(value, source, f"{path}.{key.value}" if path else key.value, reader)
        # The line of a member is the line of its key: a reader looks for the name.
        members[key.value] = YamlNode(child.content, source, key.start_mark.line + 1, child.path)
    return YamlNode(members, source, line, path)


def _invalid(source: str, mark: Any, reason: str) -> UsageError:
    position = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
    return UsageError(f"{source}{position}: {reason}", code="yaml_invalid", hint="Correct the file.")
