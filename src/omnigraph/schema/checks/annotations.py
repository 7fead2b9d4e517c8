"""Checks of annotations: each is used where it has a meaning, once, with the right kinds of arguments.

The meaning of an argument (does the property exist, is the range empty) is checked by the check of its subject.
"""

from __future__ import annotations

import re
from typing import Final, assert_never

from omnigraph.lang import syntax
from omnigraph.lang.problems import quoted
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.resolve import EDGE_CONSTRAINTS, HEADER_ANNOTATIONS, KNOWN_ANNOTATIONS, PROPERTY_ANNOTATIONS
from omnigraph.schema.syntax import EdgeSyntax

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_POSITIONS: Final = {
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
# The arguments as a regular expression, and the hint. An argument is one letter: w name, v other word, s string,
# n number, t date or datetime, r range, = a named argument, which for `@embed` is the model as a string.
_SHAPES: Final = {
    "embed": ("s=?", 'write `@embed("source")` or `@embed("source", model="…")`'),
    "default": ("[wvsnt]", "write one literal: `@default(0)`"),
    "description": ("s", 'write `@description("…")`'),
    "rename_from": ("w", "write the old name: `@rename_from(old)`"),
}
_CONSTRAINT_SHAPES: Final = {
    "key": ("w+", "write names of properties: `@key(a, b)`"),
    "unique": ("w+", "write names of properties: `@unique(a, b)`"),
    "index": ("w+=*", "write names of properties: `@index(a, b)`"),
    "range": ("wr", "write `@range(name, low..high)`; one end can be open"),
    "check": ("ws", 'write `@check(name, "regular expression")`'),
}


def check_annotations(scope: SchemaScope) -> None:
    """Report annotations that are misplaced, duplicate or have invalid arguments (S301 to S304, S504)."""
    for member in scope.members:
        declaration = member.declaration
        label = declaration.label
        _check_group(member, declaration.annotations, HEADER_ANNOTATIONS[declaration.keyword], label)
        for declared in declaration.body.properties:
            where = f"{label}: property {quoted(declared.name.text)}"
            _check_group(member, declared.annotations, PROPERTY_ANNOTATIONS, where)
        _check_constraints(member)
        for annotation in declaration.body.misplaced:
            message = f"`@{annotation.name.text[:60]}` follows no property"
            hint = "move it directly after its property, or before the `{` if it is about the type"
            member.report(SchemaCode.MISPLACED_ANNOTATION, annotation.span, message, hint)


def _check_group(
    member: DeclaredType, annotations: tuple[syntax.Annotation, ...], allowed: frozenset[str], where: str
) -> None:
    """Check the annotations of one property or of one header of a type."""
    problems = member.problems
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
            problems.report(SchemaCode.ANNOTATION_POSITION, annotation.span, message, f"use it on {_POSITIONS[name]}")
        elif name in _SHAPES:
            _check_shape(member, annotation, _SHAPES[name], where)


def _check_constraints(member: DeclaredType) -> None:
    for constraint in member.declaration.body.constraints:
        name = constraint.name.text
        if isinstance(member.declaration, EdgeSyntax) and name not in EDGE_CONSTRAINTS:
            hint = "an edge can have `@key`, `@unique` and `@index`"
            member.report(SchemaCode.EDGE_CONSTRAINT, constraint.span, f"an edge cannot have `@{name}`", hint)
        elif name in _CONSTRAINT_SHAPES:
            _check_shape(member, constraint, _CONSTRAINT_SHAPES[name], member.declaration.label)


def _check_shape(member: DeclaredType, annotation: syntax.Annotation, shape: tuple[str, str], where: str) -> None:
    pattern, hint = shape
    letters = "".join(_letter(argument) for argument in annotation.arguments)
    if not re.fullmatch(pattern, letters) or not _has_valid_names(annotation):
        message = f"{where}: `@{annotation.name.text}` has invalid arguments"
        member.problems.report(SchemaCode.ARGUMENTS, annotation.span, message, hint)


def _letter(argument: syntax.Argument) -> str:
    match argument:
        case syntax.WordLiteral(text):
            return "w" if _NAME.fullmatch(text) else "v"
        case syntax.StringLiteral():
            return "s"
        case syntax.NumberLiteral():
            return "n"
        case syntax.TimeLiteral():
            return "t"
        case syntax.RangeArgument():
            return "r"
        case syntax.NamedArgument():
            return "="
        case _:
            assert_never(argument)


def _has_valid_names(annotation: syntax.Annotation) -> bool:
    """Return whether all named arguments are a model; `check_constraints` checks the options of `@index`."""
    named = (argument for argument in annotation.arguments if isinstance(argument, syntax.NamedArgument))
    return annotation.name.text == "index" or all(
        argument.name.text == "model" and isinstance(argument.value, syntax.StringLiteral) for argument in named
    )
