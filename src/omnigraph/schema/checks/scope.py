"""What every check needs to know about the whole schema: who is called what, and what each declaration has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.lang.syntax import Annotation, WordLiteral
from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.resolve import Expansion, TypeMistake, expand, resolve_type
from omnigraph.schema.syntax import Declaration, EdgeSyntax, InterfaceSyntax, PropertySyntax, Schema

EDGE_ENDS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """One declaration and all it has, by property name, whether it wrote it itself or got it from an interface.

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
        """System columns that a constraint may name."""
        return EDGE_ENDS if isinstance(self.declaration, EdgeSyntax) else ()

    def constraints(self, name: str) -> Iterator[Annotation]:
        """The declaration's own constraints of this name."""
        return (found for found in self.declaration.body.constraints if found.name.text == name)

    def type_of(self, name: str) -> PropertyType | None:
        """The type of a property, or None when there is no such property or its type has a mistake."""
        found = self.properties.get(name)
        if found is None:
            return None
        resolved = resolve_type(found.type)
        return None if isinstance(resolved, TypeMistake) else resolved


@dataclass(frozen=True, slots=True)
class SchemaScope:
    """The declarations of a schema; of several with one name, `by_name` has the first."""

    by_name: Mapping[str, Declaration]
    members: tuple[DeclaredType, ...]


def build_scope(schema: Schema) -> SchemaScope:
    """Expand every declaration once, so that the checks only look things up."""
    by_name: dict[str, Declaration] = {}
    for declaration in schema.declarations:
        by_name.setdefault(declaration.name.text, declaration)
    interfaces = {name: found for name, found in by_name.items() if isinstance(found, InterfaceSyntax)}
    members = []
    for declaration in schema.declarations:
        expansion = expand(declaration, interfaces)
        properties = {found.name.text: found for found in expansion.properties}
        members.append(DeclaredType(declaration, expansion, properties, _value_rules(expansion)))
    return SchemaScope(by_name, tuple(members))


def _value_rules(expansion: Expansion) -> Mapping[str, tuple[Annotation, ...]]:
    rules: dict[str, list[Annotation]] = {}
    for constraint in expansion.constraints:
        names = column_names(constraint)
        if constraint.name.text in {"range", "check"} and names:
            rules.setdefault(names[0].text, []).append(constraint)
    return {name: tuple(found) for name, found in rules.items()}


def column_names(constraint: Annotation) -> tuple[WordLiteral, ...]:
    """The properties that a constraint names, as far as its arguments are names."""
    return tuple(argument for argument in constraint.arguments if isinstance(argument, WordLiteral))
