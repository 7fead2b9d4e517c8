"""The scope of the checks: declarations by name, and each declaration with everything that it has.

In: a `Schema`. Out: a `SchemaScope` that is computed once and read by every check. Reports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.lang.syntax import Annotation, WordLiteral
from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.resolve import Expansion, InvalidType, expand, resolve_type
from omnigraph.schema.syntax import Declaration, EdgeSyntax, InterfaceSyntax, PropertySyntax, Schema

EDGE_ENDPOINTS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """One declaration with all its properties by name, its own and those of its interfaces.

    `value_rules` are the `@range` and `@check` of each property.
    """

    declaration: Declaration
    expansion: Expansion
    properties: Mapping[str, PropertySyntax]
    value_rules: Mapping[str, tuple[Annotation, ...]]

    @property
    def label(self) -> str:
        return self.declaration.label

    @property
    def system_columns(self) -> tuple[str, ...]:
        """The system columns that a constraint can name."""
        return EDGE_ENDPOINTS if isinstance(self.declaration, EdgeSyntax) else ()

    def constraints(self, name: str) -> Iterator[Annotation]:
        """Return the declaration's own constraints of this name."""
        return (constraint for constraint in self.declaration.body.constraints if constraint.name.text == name)

    def type_of(self, name: str) -> PropertyType | None:
        """Return the type of a property, or None if the property does not exist or its type is invalid."""
        declared = self.properties.get(name)
        if declared is None:
            return None
        resolved = resolve_type(declared.type)
        return None if isinstance(resolved, InvalidType) else resolved


@dataclass(frozen=True, slots=True)
class SchemaScope:
    """The declarations of a schema; `by_name` has the first of each name."""

    by_name: Mapping[str, Declaration]
    members: tuple[DeclaredType, ...]


def build_scope(schema: Schema) -> SchemaScope:
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
        properties = {declaration.name.text: declaration for declaration in expansion.properties}
        members.append(DeclaredType(declaration, expansion, properties, _value_rules(expansion)))
    return SchemaScope(by_name, tuple(members))


def _value_rules(expansion: Expansion) -> Mapping[str, tuple[Annotation, ...]]:
    rules: dict[str, list[Annotation]] = {}
    for constraint in expansion.constraints:
        names = column_names(constraint)
        if constraint.name.text in {"range", "check"} and names:
            rules.setdefault(names[0].text, []).append(constraint)
    return {name: tuple(constraints) for name, constraints in rules.items()}


def column_names(constraint: Annotation) -> tuple[WordLiteral, ...]:
    """Return the arguments of a constraint that are names of properties."""
    return tuple(argument for argument in constraint.arguments if isinstance(argument, WordLiteral))
