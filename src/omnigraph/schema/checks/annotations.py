"""Checks of annotations: each is used where it has a meaning, once, with the right kinds of arguments.

The meaning of an argument (does the property exist, is the range empty) is checked by the check of its subject.
"""

from __future__ import annotations

import re
from typing import Final, assert_never

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    NamedArgument,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    WordLiteral,
)
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.resolve import (
    CONSTRAINTS,
    EDGE_ANNOTATIONS,
    EDGE_CONSTRAINTS,
    INTERFACE_ANNOTATIONS,
    KNOWN_ANNOTATIONS,
    NODE_ANNOTATIONS,
    PROPERTY_ANNOTATIONS,
)
from omnigraph.schema.syntax import Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACES: Final = {
    "key": "a property, or with names in a body: `@key(a, b)`",
    "unique": "a property, or with names in a body: `@unique(a, b)`",
    "index": "a property, or with names in a body: `@index(a, b)`",
    "range": "a property, in a node's body: `@range(age, 0..200)`",
    "check": 'a property, in a node\'s body: `@check(slug, "[a-z]+")`',
    "embed": "a property of type Vector",
    "default": "a property",
    "description": "a property, or a type before its `{`",
    "rename_from": "a property, or a node or edge before its `{`",
    "card": "an edge before its `{`",
}
# One letter per argument: w name, v other word, s string, n number, t date or datetime, r range, = `model="…"`;
# `+` repeats the letter.
_SHAPES: Final = {
    "embed": (("s", "s="), 'write `@embed("source")` or `@embed("source", model="…")`'),
    "default": (("w", "v", "s", "n", "t"), "write one literal: `@default(0)`"),
    "description": (("s",), 'write `@description("…")`'),
    "rename_from": (("w",), "write the old name: `@rename_from(old)`"),
}
_CONSTRAINT_SHAPES: Final = {
    "index": (("w+",), "write names of properties: `@index(a, b)`"),
    "range": (("wr",), "write `@range(name, low..high)`; one end can be open"),
    "check": (("ws",), 'write `@check(name, "regular expression")`'),
}


def check_annotations(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S301 to S304 and S504."""
    for member in scope.members:
        declaration = member.declaration
        allowed = _header_annotations(declaration)
        _check_group(declaration.annotations, allowed, member.label, problems)
        for declared in declaration.body.properties:
            where = f"{member.label}: property {quoted(declared.name.text)}"
            _check_group(declared.annotations, PROPERTY_ANNOTATIONS, where, problems)
        _check_constraints(member, problems)
        for annotation in declaration.body.misplaced:
            problems.report(
                SchemaCode.MISPLACED_ANNOTATION,
                annotation.span,
                f"{member.label}: `@{annotation.name.text[:60]}` follows no property",
                "move it directly after its property, or before the `{` if it is about the type",
            )


def _header_annotations(declaration: Declaration) -> frozenset[str]:
    match declaration:
        case NodeSyntax():
            return NODE_ANNOTATIONS
        case EdgeSyntax():
            return EDGE_ANNOTATIONS
        case InterfaceSyntax():
            return INTERFACE_ANNOTATIONS
        case _:
            assert_never(declaration)


def _check_group(
    annotations: tuple[Annotation, ...], allowed: frozenset[str], where: str, problems: ProblemList
) -> None:
    """Check the annotations of one property or of one header of a type."""
    seen: set[str] = set()
    for annotation in annotations:
        name = annotation.name.text
        if name not in KNOWN_ANNOTATIONS:
            continue
        if name in seen:
            message = f"{where} has a duplicate `@{name}`"
            problems.report(SchemaCode.DUPLICATE_ANNOTATION, annotation.span, message, "remove one")
        seen.add(name)
        if name not in allowed:
            message = f"{where}: `@{name}` has no meaning here"
            problems.report(SchemaCode.ANNOTATION_POSITION, annotation.span, message, f"use it on {_PLACES[name]}")
        elif name in _SHAPES:
            _check_shape(annotation, _SHAPES[name], where, problems)


def _check_constraints(member: DeclaredType, problems: ProblemList) -> None:
    for constraint in member.declaration.body.constraints:
        name = constraint.name.text
        if isinstance(member.declaration, EdgeSyntax) and name not in EDGE_CONSTRAINTS:
            problems.report(
                SchemaCode.EDGE_CONSTRAINT,
                constraint.span,
                f"{member.label}: an edge cannot have `@{name}`",
                "an edge can have `@key`, `@unique` and `@index`",
            )
        elif name in _CONSTRAINT_SHAPES:
            _check_shape(constraint, _CONSTRAINT_SHAPES[name], member.label, problems)
        elif name in CONSTRAINTS and not _has_shape(constraint.arguments, "w+"):
            hint = f"write names of properties: `@{name}(a, b)`"
            message = f"{member.label}: `@{name}` has invalid arguments"
            problems.report(SchemaCode.ARGUMENTS, constraint.span, message, hint)


def _check_shape(annotation: Annotation, shape: tuple[tuple[str, ...], str], where: str, problems: ProblemList) -> None:
    allowed, hint = shape
    if not any(_has_shape(annotation.arguments, letters) for letters in allowed):
        message = f"{where}: `@{annotation.name.text}` has invalid arguments"
        problems.report(SchemaCode.ARGUMENTS, annotation.span, message, hint)


def _has_shape(arguments: tuple[Argument, ...], shape: str) -> bool:
    letters = "".join(_letter(argument) for argument in arguments)
    if shape.endswith("+"):
        return len(letters) >= 1 and set(letters) == {shape[0]}
    return letters == shape


def _letter(argument: Argument) -> str:
    match argument:
        case WordLiteral(text):
            return "w" if _NAME.fullmatch(text) else "v"
        case StringLiteral():
            return "s"
        case NumberLiteral():
            return "n"
        case TimeLiteral():
            return "t"
        case RangeArgument():
            return "r"
        case NamedArgument(name, value):
            return "=" if name.text == "model" and isinstance(value, StringLiteral) else "?"
        case _:
            assert_never(argument)
