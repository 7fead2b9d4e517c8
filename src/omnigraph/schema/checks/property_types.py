"""The type of every property exists and is complete."""

from __future__ import annotations

from omnigraph.schema.checks.scope import Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.resolve import TYPE_NAMES, TypeMistake, resolve_type


def check_property_types(scope: Scope, problems: ProblemList) -> None:
    """Report S201 to S208."""
    for member in scope.members:
        for found in member.declaration.body.properties:
            mistake = resolve_type(found.type)
            if not isinstance(mistake, TypeMistake):
                continue
            where = f"{member.label}: property {quoted(found.name.text)}"
            hint = mistake.hint
            if mistake.code is SchemaCode.UNKNOWN_TYPE:
                hint = _unknown_type_hint(found.type.name.text, mistake, scope, problems)
            problems.add(mistake.code, mistake.span, f"{where}: {mistake.message}", hint)


def _unknown_type_hint(name: str, mistake: TypeMistake, scope: Scope, problems: ProblemList) -> str:
    named = scope.by_name.get(name)
    if named is not None:
        return f"{named.label} is not a type of values; to point at other nodes, declare an edge"
    guess = mistake.hint or problems.did_you_mean(name, TYPE_NAMES)
    return guess or f"the types are {', '.join(TYPE_NAMES)}"
