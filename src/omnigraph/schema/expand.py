"""A declaration together with what its interfaces give it.

Interface properties come first, in the order of `implements`, then the declaration's own. A property declared again
keeps its first place; the later annotations are added to the earlier ones, and the declaration's own `@description`
and metadata win. Where the two disagree about the type or a meaning, that is a conflict: it is returned as data, the
checks report it, and the catalog builder never meets one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.schema.annotations import KNOWN_ANNOTATIONS
from omnigraph.schema.resolve import TypeMistake, resolve_type
from omnigraph.schema.syntax import (
    Annotation,
    Declaration,
    InterfaceSyntax,
    Name,
    NodeSyntax,
    PropertySyntax,
)

_OVERRIDABLE: Final = "description"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A property that two places declare differently; `place` is where the later one is written."""

    place: Name
    property_name: str
    first: str
    what: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """All properties and constraints of a declaration, and which of them it wrote itself."""

    properties: tuple[PropertySyntax, ...]
    constraints: tuple[Annotation, ...]
    inherited: tuple[PropertySyntax, ...]
    inherited_constraints: tuple[Annotation, ...]
    conflicts: tuple[Conflict, ...]


def expand(declaration: Declaration, interfaces: Mapping[str, InterfaceSyntax]) -> Expansion:
    """The declaration with its interfaces' properties and constraints. Unknown interfaces are left out."""
    merged: dict[str, tuple[PropertySyntax, str]] = {}
    constraints: dict[Annotation, None] = {}
    conflicts: list[Conflict] = []
    implemented = declaration.implements if isinstance(declaration, NodeSyntax) else ()
    for name in implemented:
        interface = interfaces.get(name.text)
        if interface is None:
            continue
        for found in interface.body.properties:
            _merge(found, name, (merged, interface.label), conflicts)
        constraints.update(dict.fromkeys(interface.body.constraints))
    inherited = tuple(found for found, _ in merged.values())
    inherited_constraints = tuple(constraints)
    for found in _first_of_each_name(declaration.body.properties):
        _merge(found, found.name, (merged, declaration.label), conflicts)
    constraints.update(dict.fromkeys(declaration.body.constraints))
    return Expansion(
        properties=tuple(found for found, _ in merged.values()),
        constraints=tuple(constraints),
        inherited=inherited,
        inherited_constraints=inherited_constraints,
        conflicts=tuple(conflicts),
    )


def _first_of_each_name(properties: tuple[PropertySyntax, ...]) -> list[PropertySyntax]:
    """Twice the same name in one body is reported as that, and not also as a conflict with itself."""
    first: dict[str, PropertySyntax] = {}
    for found in properties:
        first.setdefault(found.name.text, found)
    return list(first.values())


def _merge(
    found: PropertySyntax,
    place: Name,
    target: tuple[dict[str, tuple[PropertySyntax, str]], str],
    conflicts: list[Conflict],
) -> None:
    merged, label = target
    name = found.name.text
    if name not in merged:
        merged[name] = (found, label)
        return
    earlier, first = merged[name]
    if what := _difference(earlier, found):
        conflicts.append(Conflict(place, name, first, what))
        return
    own = {annotation.name.text for annotation in found.annotations}
    kept = tuple(annotation for annotation in earlier.annotations if annotation.name.text not in own)
    merged[name] = (PropertySyntax(found.name, found.type, kept + found.annotations), label)


def _difference(earlier: PropertySyntax, later: PropertySyntax) -> str:
    """What two declarations of one property disagree about, or nothing."""
    first, second = resolve_type(earlier.type), resolve_type(later.type)
    if isinstance(first, TypeMistake) or isinstance(second, TypeMistake):
        return ""
    if first != second:
        return "type"
    if earlier.type.nullable != later.type.nullable:
        return "nullability"
    meanings = {annotation.name.text: annotation for annotation in earlier.annotations}
    for annotation in later.annotations:
        name = annotation.name.text
        if (
            name in KNOWN_ANNOTATIONS
            and name != _OVERRIDABLE
            and meanings.get(name, annotation) != annotation
        ):
            return f"`@{name}`"
    return ""
