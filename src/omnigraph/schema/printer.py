"""Syntax tree to canonical text: one property or constraint per line, two spaces, a blank line between declarations.

Reading the text again gives an equal tree, and printing that gives the same text. Comments are not part of the tree
and are lost.
"""

from __future__ import annotations

import json
from typing import assert_never

from omnigraph.schema.syntax import (
    Annotation,
    Argument,
    Body,
    Declaration,
    EdgeSyntax,
    InterfaceSyntax,
    NamedArgument,
    NodeSyntax,
    NumberLiteral,
    PropertySyntax,
    RangeArgument,
    Schema,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
    WordLiteral,
)


def print_schema(schema: Schema) -> str:
    """The canonical text; empty for an empty schema."""
    return "\n".join(_declaration(declaration) for declaration in schema.declarations)


def print_annotation(annotation: Annotation) -> str:
    """One annotation as it is written."""
    text = f"@{annotation.name.text}"
    if not annotation.arguments:
        return text
    # `@card(0..*)` is how a cardinality is read aloud; everywhere else an open end is just left out.
    open_end = "*" if annotation.name.text == "card" else ""
    return f"{text}({', '.join(_argument(argument, open_end) for argument in annotation.arguments)})"


def print_type(expression: TypeExpression) -> str:
    """A type as it is written."""
    text = expression.name.text
    if expression.parameters is not None:
        text += f"({', '.join(_argument(parameter) for parameter in expression.parameters)})"
    if expression.is_list:
        text = f"[{text}{'?' if expression.item_nullable else ''}]"
    return text + ("?" if expression.nullable else "")


def _declaration(declaration: Declaration) -> str:
    match declaration:
        case InterfaceSyntax():
            head = f"interface {declaration.name.text}"
        case NodeSyntax():
            head = f"node {declaration.name.text}"
        case EdgeSyntax():
            head = f"edge {declaration.name.text}: {declaration.source.text} -> {declaration.target.text}"
        case _:
            assert_never(declaration)
    if declaration.implements:
        head += f" implements {', '.join(name.text for name in declaration.implements)}"
    head += "".join(f" {print_annotation(annotation)}" for annotation in declaration.annotations)
    lines = _body_lines(declaration.body)
    if not lines:
        return f"{head}\n" if isinstance(declaration, EdgeSyntax) else f"{head} {{}}\n"
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}", ""])


def _body_lines(body: Body) -> list[str]:
    # Strays come first: only before every property do they still follow none when the text is read again.
    strays = [print_annotation(annotation) for annotation in body.strays]
    properties = [_property(found) for found in body.properties]
    return [*strays, *properties, *(print_annotation(constraint) for constraint in body.constraints)]


def _property(found: PropertySyntax) -> str:
    annotations = "".join(f" {print_annotation(annotation)}" for annotation in found.annotations)
    return f"{found.name.text}: {print_type(found.type)}{annotations}"


def _argument(argument: Argument, open_end: str = "") -> str:
    match argument:
        case StringLiteral(value):
            return json.dumps(value, ensure_ascii=False)
        case NumberLiteral(text) | WordLiteral(text):
            return text
        case TimeLiteral(text=text):
            return f"{argument.function}({json.dumps(text, ensure_ascii=False)})"
        case NamedArgument(name, value):
            return f"{name.text}={_argument(value)}"
        case RangeArgument(low, high):
            first = _argument(low) if low else ""
            return f"{first}..{_argument(high) if high else open_end}"
        case _:
            assert_never(argument)
