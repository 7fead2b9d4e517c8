"""The meaning of parts of a syntax tree: type expressions, annotations, and the properties that interfaces add.

In: syntax nodes. Out: property types and expanded declarations, or the errors in them as values: `checks` report the
errors, and the catalog builder never meets one, because the checks run before it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import (
    Annotation,
    Literal,
    Name,
    NumberLiteral,
    Span,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
)
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.syntax import Declaration, InterfaceSyntax, NodeSyntax, PropertySyntax

PROPERTY_ANNOTATIONS: Final = frozenset({"key", "unique", "index", "embed", "default", "description", "rename_from"})
NODE_ANNOTATIONS: Final = frozenset({"rename_from", "description"})
EDGE_ANNOTATIONS: Final = frozenset({"rename_from", "description", "card"})
INTERFACE_ANNOTATIONS: Final = frozenset({"description"})
CONSTRAINTS: Final = frozenset({"key", "unique", "index", "range", "check"})
EDGE_CONSTRAINTS: Final = frozenset({"key", "unique", "index"})
KNOWN_ANNOTATIONS: Final = PROPERTY_ANNOTATIONS | EDGE_ANNOTATIONS | CONSTRAINTS
_SCALARS: Final = {scalar.value: scalar for scalar in Scalar}
TYPE_NAMES: Final = (*_SCALARS, "Vector", "enum")
_ENUM_WORD: Final = re.compile(r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*")
_OTHER_LANGUAGES: Final = {
    "text": "String",
    "str": "String",
    "varchar": "String",
    "uuid": "String",
    "int": "I32` or `I64",
    "integer": "I32` or `I64",
    "long": "I64",
    "int32": "I32",
    "int64": "I64",
    "uint32": "U32",
    "uint64": "U64",
    "float": "F32` or `F64",
    "float32": "F32",
    "float64": "F64",
    "double": "F64",
    "decimal": "F64",
    "boolean": "Bool",
    "timestamp": "DateTime",
    "bytes": "Blob",
    "binary": "Blob",
}
_OVERRIDABLE: Final = "description"


def find_annotation(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    """Return the first annotation of this name."""
    return next((annotation for annotation in annotations if annotation.name.text == name), None)


def metadata_of(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """Return the annotations without a meaning of their own, which the catalog only stores."""
    return tuple(annotation for annotation in annotations if annotation.name.text not in KNOWN_ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class InvalidType:
    """Why an expression is not a valid type."""

    code: SchemaCode
    span: Span
    message: str
    hint: str = ""


def resolve_type(expression: TypeExpression) -> PropertyType | InvalidType:
    """Return the type that an expression names, or why it names none."""
    name = expression.name
    resolved: PropertyType | InvalidType
    if name.text == "Vector":
        resolved = _vector(expression)
    elif name.text == "enum":
        resolved = _enum(expression)
    elif name.text in _SCALARS:
        resolved = _scalar(expression, _SCALARS[name.text])
    else:
        equivalent = _OTHER_LANGUAGES.get(name.text.lower())
        hint = f"did you mean `{equivalent}`?" if equivalent else ""
        resolved = InvalidType(SchemaCode.UNKNOWN_TYPE, name.span, f"unknown type {quoted(name.text)}", hint)
    if isinstance(resolved, InvalidType) or not expression.is_list:
        return resolved
    return _list(expression, resolved)


def _scalar(expression: TypeExpression, scalar: Scalar) -> ScalarType | InvalidType:
    if expression.parameters is not None:
        message = f"`{scalar.value}` takes no parameters"
        return InvalidType(SchemaCode.NO_PARAMETERS, expression.name.span, message, f"write `{scalar.value}`")
    return ScalarType(scalar)


def _vector(expression: TypeExpression) -> VectorType | InvalidType:
    hint = f"write a size from 1 to {limits.VECTOR_DIMENSIONS_MAX}, such as `Vector(384)`"
    span = expression.name.span
    match expression.parameters:
        case None | ():
            return InvalidType(SchemaCode.VECTOR_SIZE, span, "`Vector` needs a size", hint)
        case [NumberLiteral(text)]:
            # The length is checked first: Python does not parse integers of thousands of digits.
            digits = text.lstrip("0")
            if digits.isdecimal() and len(digits) <= 9 and 1 <= int(digits) <= limits.VECTOR_DIMENSIONS_MAX:
                return VectorType(int(digits))
            return InvalidType(
                SchemaCode.VECTOR_SIZE,
                expression.parameters[0].span,
                f"{quoted(text)} is not a valid size of a vector",
                hint,
            )
        case _:
            return InvalidType(SchemaCode.VECTOR_SIZE, span, "`Vector` needs one integer", hint)


def _enum(expression: TypeExpression) -> EnumType | InvalidType:
    if not expression.parameters:
        hint = "write `enum(one, two)`"
        return InvalidType(SchemaCode.ENUM_EMPTY, expression.name.span, "`enum` needs values", hint)
    seen: set[str] = set()
    for literal in expression.parameters:
        word = _enum_word(literal)
        if word is None:
            message = f"{quoted(_shown(literal))} is not a valid enum value"
            hint = "write words of letters, digits, `_` and inner `-`, without quotes"
            return InvalidType(SchemaCode.ENUM_VALUE, literal.span, message, hint)
        if word in seen:
            message = f"the enum has the duplicate value {quoted(word)}"
            return InvalidType(SchemaCode.DUPLICATE_ENUM_VALUE, literal.span, message, "remove one")
        seen.add(word)
    return EnumType(tuple(sorted(seen)))


def _enum_word(literal: Literal) -> str | None:
    if isinstance(literal, StringLiteral | TimeLiteral) or not _ENUM_WORD.fullmatch(literal.text):
        return None
    return literal.text


def _shown(literal: Literal) -> str:
    return f'"{literal.value}"' if isinstance(literal, StringLiteral) else literal.text


def _list(expression: TypeExpression, item: PropertyType) -> ListType | InvalidType:
    span = expression.name.span
    if not isinstance(item, ScalarType) or item.scalar is Scalar.BLOB:
        message = f"a list cannot have items of type `{expression.name.text}`"
        hint = f"items are {', '.join(name for name in _SCALARS if name != Scalar.BLOB.value)}"
        return InvalidType(SchemaCode.LIST_ITEM, span, message, hint)
    if expression.item_nullable:
        message = "the items of a list are never null"
        return InvalidType(SchemaCode.LIST_ITEM_NULLABLE, span, message, f"write `[{item.scalar.value}]?`")
    return ListType(item.scalar)


@dataclass(frozen=True, slots=True)
class PropertyConflict:
    """A property with two different declarations; `later` is the position of the second one."""

    later: Name
    property_name: str
    first: str
    difference: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """All properties and constraints of a declaration, and those that interfaces added."""

    properties: tuple[PropertySyntax, ...]
    constraints: tuple[Annotation, ...]
    inherited: tuple[PropertySyntax, ...]
    inherited_constraints: tuple[Annotation, ...]
    conflicts: tuple[PropertyConflict, ...]


def expand(declaration: Declaration, interfaces: Mapping[str, InterfaceSyntax]) -> Expansion:
    """Return a declaration with the properties and constraints of its interfaces. Unknown interfaces are skipped."""
    merged: dict[str, tuple[PropertySyntax, str]] = {}
    constraints: dict[Annotation, None] = {}
    conflicts: list[PropertyConflict] = []
    implemented = declaration.implements if isinstance(declaration, NodeSyntax) else ()
    for name in implemented:
        interface = interfaces.get(name.text)
        if interface is None:
            continue
        for declared in interface.body.properties:
            _merge(declared, name, (merged, interface.label), conflicts)
        constraints.update(dict.fromkeys(interface.body.constraints))
    inherited = tuple(declared for declared, _ in merged.values())
    inherited_constraints = tuple(constraints)
    for declared in _first_of_each_name(declaration.body.properties):
        _merge(declared, declared.name, (merged, declaration.label), conflicts)
    constraints.update(dict.fromkeys(declaration.body.constraints))
    return Expansion(
        properties=tuple(declared for declared, _ in merged.values()),
        constraints=tuple(constraints),
        inherited=inherited,
        inherited_constraints=inherited_constraints,
        conflicts=tuple(conflicts),
    )


def _first_of_each_name(properties: tuple[PropertySyntax, ...]) -> list[PropertySyntax]:
    """Return the properties without duplicates, which another check reports."""
    first: dict[str, PropertySyntax] = {}
    for declared in properties:
        first.setdefault(declared.name.text, declared)
    return list(first.values())


def _merge(
    declared: PropertySyntax,
    position: Name,
    target: tuple[dict[str, tuple[PropertySyntax, str]], str],
    conflicts: list[PropertyConflict],
) -> None:
    merged, label = target
    name = declared.name.text
    if name not in merged:
        merged[name] = (declared, label)
        return
    earlier, first = merged[name]
    if difference := _difference(earlier, declared):
        conflicts.append(PropertyConflict(position, name, first, difference))
        return
    own = {annotation.name.text for annotation in declared.annotations}
    inherited = tuple(annotation for annotation in earlier.annotations if annotation.name.text not in own)
    merged[name] = (PropertySyntax(declared.name, declared.type, inherited + declared.annotations), label)


def _difference(earlier: PropertySyntax, later: PropertySyntax) -> str:
    """Return the part in which two declarations of a property differ, or an empty string."""
    first, second = resolve_type(earlier.type), resolve_type(later.type)
    if isinstance(first, InvalidType) or isinstance(second, InvalidType):
        return ""
    if first != second:
        return "type"
    if earlier.type.nullable != later.type.nullable:
        return "nullability"
    meanings = {annotation.name.text: annotation for annotation in earlier.annotations}
    for annotation in later.annotations:
        name = annotation.name.text
        if name in KNOWN_ANNOTATIONS and name != _OVERRIDABLE and meanings.get(name, annotation) != annotation:
            return f"`@{name}`"
    return ""
