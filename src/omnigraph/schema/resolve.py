"""The meaning of parts of a syntax tree: type expressions, annotations, and the properties that interfaces add.

In: syntax nodes. Out: property types and expanded declarations, or the errors in them as values: `checks` report the
errors, and the catalog builder never meets one, because the checks run before it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import replace

from omnigraph.base import limits
from omnigraph.lang import syntax
from omnigraph.lang.problems import quoted
from omnigraph.schema import property_types
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Declaration, InterfaceSyntax, NodeSyntax, PropertySyntax

PROPERTY_ANNOTATIONS: Final = frozenset({"key", "unique", "index", "embed", "default", "description", "rename_from"})
HEADER_ANNOTATIONS: Final = {
    "interface": frozenset({"description"}),
    "node": frozenset({"rename_from", "description"}),
    "edge": frozenset({"rename_from", "description", "card"}),
}
CONSTRAINTS: Final = frozenset({"key", "unique", "index", "range", "check"})
EDGE_CONSTRAINTS: Final = frozenset({"key", "unique", "index"})
KNOWN_ANNOTATIONS: Final = PROPERTY_ANNOTATIONS | HEADER_ANNOTATIONS["edge"] | CONSTRAINTS
_SCALARS: Final = {scalar.value: scalar for scalar in property_types.Scalar}
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


def find_annotation(annotations: tuple[syntax.Annotation, ...], name: str) -> syntax.Annotation | None:
    """Return the first annotation of this name."""
    return next((annotation for annotation in annotations if annotation.name.text == name), None)


def arguments_of(annotations: tuple[syntax.Annotation, ...], name: str) -> tuple[syntax.Argument, ...]:
    """Return the arguments of the first annotation of this name; none without it."""
    annotation = find_annotation(annotations, name)
    return annotation.arguments if annotation else ()


def metadata_of(annotations: tuple[syntax.Annotation, ...]) -> tuple[syntax.Annotation, ...]:
    """Return the annotations without a meaning of their own, which the catalog only stores."""
    return tuple(annotation for annotation in annotations if annotation.name.text not in KNOWN_ANNOTATIONS)


def column_names(constraint: syntax.Annotation) -> tuple[syntax.WordLiteral, ...]:
    """Return the arguments of a constraint that are names of properties."""
    return tuple(argument for argument in constraint.arguments if isinstance(argument, syntax.WordLiteral))


class ColumnList(Struct, frozen=True):
    """The columns of one `@key`, `@unique` or `@index`; for that of a property, the property itself."""

    annotation: syntax.Annotation
    columns: tuple[syntax.WordLiteral, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.text for column in self.columns)


def column_lists(
    properties: Iterable[PropertySyntax], constraints: Iterable[syntax.Annotation], kind: str
) -> Iterator[ColumnList]:
    """Return the annotations of properties, then the constraints, that have this name."""
    for declared in properties:
        annotation = find_annotation(declared.annotations, kind)
        if annotation:
            yield ColumnList(annotation, (syntax.WordLiteral(declared.name.text, annotation.span),))
    for constraint in constraints:
        if constraint.name.text == kind:
            yield ColumnList(constraint, column_names(constraint))


class InvalidOption(Struct, frozen=True):
    """Why an option of `@index` is not valid."""

    span: syntax.Span
    message: str
    hint: str


def text_options(annotation: syntax.Annotation) -> tuple[property_types.TextOptions, tuple[InvalidOption, ...]]:
    """Return the options of an `@index`, and the reason for each one that is not valid."""
    options: dict[str, bool | str] = {}
    invalid: list[InvalidOption] = []
    for argument in annotation.arguments:
        if isinstance(argument, syntax.NamedArgument):
            name = argument.name.text
            value = _option_value(argument)
            if isinstance(value, InvalidOption):
                invalid.append(value)
            elif name in options:
                invalid.append(InvalidOption(argument.span, f"duplicate option `{name}`", "remove one"))
            else:
                options[name] = value
    if options.get("ascii_folding") and "stem" in options:
        # Lance removes endings before accents: `résumé` becomes `resume`, and `resume` becomes `resum`.
        message = "`ascii_folding` and `stem` cannot be combined: words with accents would not be found without them"
        invalid.append(InvalidOption(annotation.span, message, "remove one of them"))
    return convert(options, property_types.TextOptions), tuple(invalid)


def _option_value(argument: syntax.NamedArgument) -> bool | str | InvalidOption:
    name, value = argument.name.text, argument.value
    shown = f'"{value.value[:60]}"' if isinstance(value, syntax.StringLiteral) else value.text[:60]
    match name, value:
        case "ascii_folding", syntax.WordLiteral("true" | "false" as text):
            return text == "true"
        case "ascii_folding", _:
            hint = "write `@index(ascii_folding=true)`"
            return InvalidOption(value.span, f"invalid `ascii_folding`: expected true or false, got `{shown}`", hint)
        case "stem", syntax.StringLiteral(language) if language in property_types.STEM_LANGUAGES:
            return language
        case "stem", syntax.StringLiteral(language):
            hint = f"use one of {', '.join(property_types.STEM_LANGUAGES)}"
            return InvalidOption(value.span, f"`stem` has the unknown language {quoted(language)}", hint)
        case "stem", _:
            hint = 'write `@index(stem="english")`'
            return InvalidOption(value.span, f"invalid `stem`: expected a language in quotes, got `{shown}`", hint)
        case _:
            hint = 'the options are `ascii_folding=true` and `stem="english"`'
            return InvalidOption(argument.span, f"unknown option {quoted(name)}", hint)


class InvalidType(Struct, frozen=True):
    """Why an expression is not a valid type."""

    code: SchemaCode
    span: syntax.Span
    message: str
    hint: str = ""


def resolve_type(expression: syntax.TypeExpression) -> property_types.PropertyType | InvalidType:
    """Return the type that an expression names, or why it names none."""
    name = expression.name
    resolved: property_types.PropertyType | InvalidType
    if name.text == "Vector":
        resolved = _vector(expression)
    elif name.text == "enum":
        resolved = _enum(expression)
    elif name.text in _SCALARS and expression.parameters is None:
        resolved = property_types.ScalarType(_SCALARS[name.text])
    elif name.text in _SCALARS:
        message = f"`{name.text}` takes no parameters"
        resolved = InvalidType(SchemaCode.NO_PARAMETERS, name.span, message, f"write `{name.text}`")
    else:
        equivalent = _OTHER_LANGUAGES.get(name.text.lower())
        hint = f"did you mean `{equivalent}`?" if equivalent else ""
        resolved = InvalidType(SchemaCode.UNKNOWN_TYPE, name.span, f"unknown type {quoted(name.text)}", hint)
    if isinstance(resolved, InvalidType) or not expression.is_list:
        return resolved
    return _list(expression, resolved)


def _vector(expression: syntax.TypeExpression) -> property_types.VectorType | InvalidType:
    hint = f"write a size from 1 to {limits.VECTOR_DIMENSIONS_MAX}, such as `Vector(384)`"
    span = expression.name.span
    match expression.parameters:
        case None | ():
            return InvalidType(SchemaCode.VECTOR_SIZE, span, "`Vector` needs a size", hint)
        case [syntax.NumberLiteral(text)]:
            # The length is checked first: Python does not parse integers of thousands of digits.
            digits = text.lstrip("0")
            if digits.isdecimal() and len(digits) <= 9 and 1 <= int(digits) <= limits.VECTOR_DIMENSIONS_MAX:
                return property_types.VectorType(int(digits))
            message = f"{quoted(text)} is not a valid size of a vector"
            return InvalidType(SchemaCode.VECTOR_SIZE, expression.parameters[0].span, message, hint)
        case _:
            return InvalidType(SchemaCode.VECTOR_SIZE, span, "`Vector` needs one integer", hint)


def _enum(expression: syntax.TypeExpression) -> property_types.EnumType | InvalidType:
    if not expression.parameters:
        hint = "write `enum(one, two)`"
        return InvalidType(SchemaCode.ENUM_EMPTY, expression.name.span, "`enum` needs values", hint)
    seen: set[str] = set()
    for literal in expression.parameters:
        is_word = isinstance(literal, syntax.WordLiteral | syntax.NumberLiteral)
        text = f'"{literal.value}"' if isinstance(literal, syntax.StringLiteral) else literal.text
        if not is_word or not _ENUM_WORD.fullmatch(text):
            hint = "write words of letters, digits, `_` and inner `-`, without quotes"
            return InvalidType(SchemaCode.ENUM_VALUE, literal.span, f"{quoted(text)} is not a valid enum value", hint)
        if text in seen:
            message = f"the enum has the duplicate value {quoted(text)}"
            return InvalidType(SchemaCode.DUPLICATE_ENUM_VALUE, literal.span, message, "remove one")
        seen.add(text)
    return property_types.EnumType(tuple(sorted(seen)))


def _list(
    expression: syntax.TypeExpression, item: property_types.PropertyType
) -> property_types.ListType | InvalidType:
    span = expression.name.span
    if not isinstance(item, property_types.ScalarType) or item.scalar is property_types.Scalar.BLOB:
        message = f"a list cannot have items of type `{expression.name.text}`"
        hint = f"items are {', '.join(name for name in _SCALARS if name != property_types.Scalar.BLOB.value)}"
        return InvalidType(SchemaCode.LIST_ITEM, span, message, hint)
    if expression.item_nullable:
        message = "the items of a list are never null"
        return InvalidType(SchemaCode.LIST_ITEM_NULLABLE, span, message, f"write `[{item.scalar.value}]?`")
    return property_types.ListType(item.scalar)


class PropertyConflict(Struct, frozen=True):
    """A property with two different declarations; `later` is the position of the second one."""

    later: syntax.Name
    property_name: str
    first: str
    difference: str


class Expansion(Struct, frozen=True, kw_only=True):
    """All properties and constraints of a declaration, and those that interfaces added."""

    properties: tuple[PropertySyntax, ...]
    constraints: tuple[syntax.Annotation, ...]
    inherited: tuple[PropertySyntax, ...]
    inherited_constraints: tuple[syntax.Annotation, ...]
    conflicts: tuple[PropertyConflict, ...]


def expand(declaration: Declaration, interfaces: Mapping[str, InterfaceSyntax]) -> Expansion:
    """Return a declaration with the properties and constraints of its interfaces. Unknown interfaces are skipped."""
    properties: dict[str, PropertySyntax] = {}
    labels: dict[str, str] = {}
    constraints: dict[syntax.Annotation, None] = {}
    conflicts: list[PropertyConflict] = []

    def add(declared: PropertySyntax, position: syntax.Name, label: str) -> None:
        name = declared.name.text
        earlier = properties.get(name)
        if earlier is not None:
            if difference := _difference(earlier, declared):
                conflicts.append(PropertyConflict(position, name, labels[name], difference))
                return
            replaced = {annotation.name.text for annotation in declared.annotations}
            inherited = tuple(annotation for annotation in earlier.annotations if annotation.name.text not in replaced)
            declared = replace(declared, annotations=inherited + declared.annotations)
        properties[name], labels[name] = declared, label

    for name in declaration.implements if isinstance(declaration, NodeSyntax) else ():
        interface = interfaces.get(name.text)
        if interface is not None:
            for declared in interface.body.properties:
                add(declared, name, interface.label)
            constraints |= dict.fromkeys(interface.body.constraints)
    inherited_properties, inherited_constraints = tuple(properties.values()), tuple(constraints)
    own: dict[str, PropertySyntax] = {}
    for declared in declaration.body.properties:
        # Another check reports duplicates.
        own.setdefault(declared.name.text, declared)
    for declared in own.values():
        add(declared, declared.name, declaration.label)
    constraints |= dict.fromkeys(declaration.body.constraints)
    return Expansion(
        properties=tuple(properties.values()),
        constraints=tuple(constraints),
        inherited=inherited_properties,
        inherited_constraints=inherited_constraints,
        conflicts=tuple(conflicts),
    )


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
        can_differ = name == "description" or name not in KNOWN_ANNOTATIONS
        if not can_differ and meanings.get(name, annotation) != annotation:
            return f"`@{name}`"
    return ""
