"""`@embed`: on a vector, from a String of the same declaration."""

from __future__ import annotations

from omnigraph.schema.annotations import find_annotation
from omnigraph.schema.checks.scope import Member, Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.property_types import VectorType, is_free_text, type_text
from omnigraph.schema.syntax import StringLiteral


def check_embeds(scope: Scope, problems: ProblemList) -> None:
    """Report S322 and S323."""
    for member in scope.members:
        for found in member.declaration.body.properties:
            embed = find_annotation(found.annotations, "embed")
            if embed is None:
                continue
            where = f"{member.label}: property {quoted(found.name.text)}"
            resolved = member.type_of(found.name.text)
            if resolved is not None and not isinstance(resolved, VectorType):
                message = f"{where} of type `{type_text(resolved)}` cannot hold an embedding"
                problems.add(SchemaCode.EMBED_TYPE, embed.span, message, "its type must be `Vector(n)`")
            if embed.arguments and isinstance(embed.arguments[0], StringLiteral):
                _check_source(member, where, embed.arguments[0], problems)


def _check_source(member: Member, where: str, source: StringLiteral, problems: ProblemList) -> None:
    name = source.value
    resolved = member.type_of(name)
    if name not in member.properties:
        message = f"{where} is embedded from the unknown property {quoted(name)}"
        hint = problems.did_you_mean(name, member.properties) or "name a String property of the same type"
        problems.add(SchemaCode.EMBED_SOURCE, source.span, message, hint)
    elif resolved is not None and not is_free_text(resolved):
        message = f"{where} is embedded from {quoted(name)}, which is no String"
        problems.add(SchemaCode.EMBED_SOURCE, source.span, message, "name a String property of the same type")
