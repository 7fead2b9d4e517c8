"""The scope of the checks: declarations by name, and each declaration with everything that it has.

In: a `Schema`. Out: a `SchemaScope` that is computed once and read by every check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Annotation, Span
from omnigraph.schema import property_types as types
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.resolve import Expansion, InvalidType, column_names, expand, resolve_type
from omnigraph.schema.syntax import Declaration, EdgeSyntax, InterfaceSyntax, PropertySyntax, Schema

EDGE_ENDPOINTS: Final = ("src", "dst")
_REQUIRED_TYPES: Final[dict[str, tuple[Callable[[types.PropertyType], bool], SchemaCode, str, str]]] = {
    "key": (
        types.has_single_value,
        SchemaCode.KEY_TYPE,
        "be part of a key",
        "use strings, enums, numbers, booleans, dates and datetimes in keys",
    ),
    "unique": (
        types.has_single_value,
        SchemaCode.UNIQUE_TYPE,
        "be unique",
        "lists, vectors and blobs cannot be compared",
    ),
    "index": (
        lambda kind: types.index_kind(kind) is not None,
        SchemaCode.INDEX_TYPE,
        "be indexed",
        "lists and blobs cannot be indexed",
    ),
    "text options": (
        types.is_free_text,
        SchemaCode.INDEX_OPTION_TYPE,
        "have options of text search",
        "use `ascii_folding` and `stem` on Strings",
    ),
    "range": (types.has_range, SchemaCode.RANGE_TYPE, "have a range", "use `@range` on numbers, dates and datetimes"),
    "check": (types.is_free_text, SchemaCode.CHECK_TYPE, "have a `@check`", "`@check` applies to Strings"),
    "default": (types.has_single_value, SchemaCode.DEFAULT_TYPE, "have a default", "make it nullable instead"),
    "embed": (
        lambda kind: isinstance(kind, types.VectorType),
        SchemaCode.EMBED_TYPE,
        "hold an embedding",
        "change its type to `Vector(n)`",
    ),
}
"""For each annotation: the types that support it, the code for other types, what they cannot do, and a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """One declaration with all its properties by name, its own and those of its interfaces.

    `value_rules` are the `@range` and `@check` of each property.
    """

    declaration: Declaration
    expansion: Expansion
    properties: Mapping[str, PropertySyntax]
    value_rules: Mapping[str, tuple[Annotation, ...]]
    problems: ProblemList

    def report(self, code: SchemaCode, span: Span, message: str, hint: str = "") -> None:
        """Report a problem; the message starts with the declaration."""
        self.problems.report(code, span, f"{self.declaration.label}: {message}", hint)

    @property
    def system_columns(self) -> tuple[str, ...]:
        """The system columns that a constraint can name."""
        return EDGE_ENDPOINTS if isinstance(self.declaration, EdgeSyntax) else ()

    def constraints(self, name: str) -> Iterator[Annotation]:
        """Return the declaration's own constraints of this name."""
        return (constraint for constraint in self.declaration.body.constraints if constraint.name.text == name)

    def type_of(self, name: str) -> types.PropertyType | None:
        """Return the type of a property, or None if the property does not exist or its type is invalid."""
        declared = self.properties.get(name)
        resolved = None if declared is None else resolve_type(declared.type)
        return None if isinstance(resolved, InvalidType) else resolved

    def supported_type(self, annotation: str, name: str, span: Span) -> types.PropertyType | None:
        """Return the type of a property if it supports an annotation; report it otherwise."""
        property_type = self.type_of(name)
        supports, code, ability, hint = _REQUIRED_TYPES[annotation]
        if property_type is None or supports(property_type):
            return property_type
        self.report(
            code, span, f"property {quoted(name)} of type `{types.type_text(property_type)}` cannot {ability}", hint
        )
        return None


@dataclass(frozen=True, slots=True)
class SchemaScope:
    """The declarations of a schema; `by_name` has the first of each name."""

    by_name: Mapping[str, Declaration]
    members: tuple[DeclaredType, ...]
    problems: ProblemList


def build_scope(schema: Schema, problems: ProblemList) -> SchemaScope:
    """Expand every declaration once, for all checks."""
    by_name: dict[str, Declaration] = {}
    for declaration in schema.declarations:
        by_name.setdefault(declaration.name.text, declaration)
    interfaces = {
        name: declaration for name, declaration in by_name.items() if isinstance(declaration, InterfaceSyntax)
    }
    members = []
    for declaration in schema.declarations:
        expansion = expand(declaration, interfaces)
        properties = {declared.name.text: declared for declared in expansion.properties}
        members.append(
            DeclaredType(
                declaration=declaration,
                expansion=expansion,
                properties=properties,
                value_rules=_value_rules(expansion),
                problems=problems,
            )
        )
    return SchemaScope(by_name, tuple(members), problems)


def _value_rules(expansion: Expansion) -> Mapping[str, tuple[Annotation, ...]]:
    rules: dict[str, list[Annotation]] = {}
    for constraint in expansion.constraints:
        names = column_names(constraint)
        if constraint.name.text in {"range", "check"} and names:
            rules.setdefault(names[0].text, []).append(constraint)
    return {name: tuple(constraints) for name, constraints in rules.items()}
