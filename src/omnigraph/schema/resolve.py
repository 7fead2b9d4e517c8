"""A type expression of the text to a property type, or the mistake in it.

Pure: the checks report the mistakes, the catalog builder meets none because the checks ran before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import quoted
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.syntax import Literal, NumberLiteral, Span, StringLiteral, TimeLiteral, TypeExpression

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


@dataclass(frozen=True, slots=True)
class TypeMistake:
    """Why an expression is no type."""

    code: SchemaCode
    span: Span
    message: str
    hint: str = ""


def resolve_type(expression: TypeExpression) -> PropertyType | TypeMistake:
    """The type that an expression names."""
    name = expression.name
    resolved: PropertyType | TypeMistake
    if name.text == "Vector":
        resolved = _vector(expression)
    elif name.text == "enum":
        resolved = _enum(expression)
    elif name.text in _SCALARS:
        resolved = _scalar(expression, _SCALARS[name.text])
    else:
        known = _OTHER_LANGUAGES.get(name.text.lower())
        hint = f"did you mean `{known}`?" if known else ""
        resolved = TypeMistake(SchemaCode.UNKNOWN_TYPE, name.span, f"unknown type {quoted(name.text)}", hint)
    if isinstance(resolved, TypeMistake) or not expression.is_list:
        return resolved
    return _list(expression, resolved)


def _scalar(expression: TypeExpression, scalar: Scalar) -> ScalarType | TypeMistake:
    if expression.parameters is not None:
        message = f"`{scalar.value}` takes no parameters"
        return TypeMistake(SchemaCode.NO_PARAMETERS, expression.name.span, message, f"write `{scalar.value}`")
    return ScalarType(scalar)


def _vector(expression: TypeExpression) -> VectorType | TypeMistake:
    hint = f"write `Vector(384)`; a size is from 1 to {limits.VECTOR_DIMENSIONS_MAX}"
    span = expression.name.span
    match expression.parameters:
        case None | ():
            return TypeMistake(SchemaCode.VECTOR_SIZE, span, "`Vector` needs a size", hint)
        case [NumberLiteral(text)]:
            # The length is looked at first: Python refuses to read numbers of thousands of digits.
            digits = text.lstrip("0")
            if digits.isdecimal() and len(digits) <= 9 and 1 <= int(digits) <= limits.VECTOR_DIMENSIONS_MAX:
                return VectorType(int(digits))
            return TypeMistake(
                SchemaCode.VECTOR_SIZE,
                expression.parameters[0].span,
                f"{quoted(text)} is no size of a vector",
                hint,
            )
        case _:
            return TypeMistake(SchemaCode.VECTOR_SIZE, span, "`Vector` needs one whole number", hint)


def _enum(expression: TypeExpression) -> EnumType | TypeMistake:
    if not expression.parameters:
        hint = "write `enum(one, two)`"
        return TypeMistake(SchemaCode.ENUM_EMPTY, expression.name.span, "`enum` needs values", hint)
    seen: set[str] = set()
    for literal in expression.parameters:
        word = _enum_word(literal)
        if word is None:
            message = f"{quoted(_shown(literal))} is no value for an enum"
            hint = "values are words of letters, digits, `_` and inner `-`, without quotes"
            return TypeMistake(SchemaCode.ENUM_VALUE, literal.span, message, hint)
        if word in seen:
            message = f"the enum has the value {quoted(word)} twice"
            return TypeMistake(SchemaCode.ENUM_VALUE_TWICE, literal.span, message, "remove one")
        seen.add(word)
    return EnumType(tuple(sorted(seen)))


def _enum_word(literal: Literal) -> str | None:
    if isinstance(literal, StringLiteral | TimeLiteral) or not _ENUM_WORD.fullmatch(literal.text):
        return None
    return literal.text


def _shown(literal: Literal) -> str:
    return f'"{literal.value}"' if isinstance(literal, StringLiteral) else literal.text


def _list(expression: TypeExpression, item: PropertyType) -> ListType | TypeMistake:
    span = expression.name.span
    if not isinstance(item, ScalarType) or item.scalar is Scalar.BLOB:
        message = f"a list cannot have items of type `{expression.name.text}`"
        hint = f"items are {', '.join(name for name in _SCALARS if name != Scalar.BLOB.value)}"
        return TypeMistake(SchemaCode.LIST_ITEM, span, message, hint)
    if expression.item_nullable:
        message = "the items of a list are never null"
        return TypeMistake(SchemaCode.LIST_ITEM_NULLABLE, span, message, f"write `[{item.scalar.value}]?`")
    return ListType(item.scalar)
