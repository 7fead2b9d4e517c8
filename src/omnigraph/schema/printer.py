"""A catalog back to a syntax tree, so that it can be printed as `.pg`.

Nodes are printed with the properties that their interfaces gave them, because that is what the catalog knows; for a
fresh catalog, building the result gives an equal one. Ids and gaps in their numbering have no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import assert_never

from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    Literal,
    Name,
    NamedArgument,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
    WordLiteral,
)
from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    EdgeType,
    Entity,
    EntityType,
    Interface,
    NodeType,
    PropertyShape,
    Rules,
)
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.syntax import (
    Body,
    Declaration,
    EdgeSyntax,
    InterfaceSyntax,
    NodeSyntax,
    PropertySyntax,
    Schema,
)
from omnigraph.schema.values import Value, value_text


def schema_from_catalog(catalog: Catalog) -> Schema:
    """Interfaces first, then the types in the order of their ids."""
    interfaces = (_interface(found) for found in catalog.interfaces)
    types = sorted(catalog.types, key=lambda entity: entity.id)
    return Schema((*interfaces, *(_type_declaration(catalog, found) for found in types)))


def _type_declaration(catalog: Catalog, found: Entity) -> Declaration:
    return _node(found) if isinstance(found, NodeType) else _edge(catalog, found)


def _interface(found: Interface) -> InterfaceSyntax:
    header = (*_described(found.description), *found.metadata)
    return InterfaceSyntax(Name(found.name), header, (), _body(found.properties, found.rules))


def _node(found: NodeType) -> NodeSyntax:
    implements = tuple(Name(name) for name in found.implements)
    return NodeSyntax(Name(found.name), _header(found), implements, _body(found.properties, found.rules))


def _edge(catalog: Catalog, found: EdgeType) -> EdgeSyntax:
    return EdgeSyntax(
        Name(found.name),
        Name(catalog.source_of(found).name),
        Name(catalog.target_of(found).name),
        (*_card(found.cardinality), *_header(found)),
        body=_body(found.properties, found.rules),
    )


def _header(found: EntityType) -> tuple[Annotation, ...]:
    return (*_renamed(found.renamed_from), *_described(found.description), *found.metadata)


def _card(cardinality: Cardinality) -> Iterator[Annotation]:
    if cardinality != Cardinality():
        high = None if cardinality.high is None else NumberLiteral(str(cardinality.high))
        yield _annotation("card", RangeArgument(NumberLiteral(str(cardinality.low)), high))


def _body(properties: tuple[PropertyShape, ...], rules: Rules) -> Body:
    types = {found.name: found.type for found in properties}
    return Body(tuple(_property(found) for found in properties), tuple(_constraints(rules, types)))


def _property(found: PropertyShape) -> PropertySyntax:
    nullable = found.nullable and not (found.embedding and found.embedding.required)
    return PropertySyntax(Name(found.name), _type(found.type, nullable), tuple(_annotations(found)))


def _annotations(found: PropertyShape) -> Iterator[Annotation]:
    if found.indexed:
        yield _annotation("index")
    if found.default is not None:
        yield _annotation("default", _literal(found.default, found.type))
    if found.embedding:
        model = found.embedding.model
        named = (NamedArgument(Name("model"), StringLiteral(model)),) if model is not None else ()
        yield _annotation("embed", StringLiteral(found.embedding.source), *named)
    yield from _renamed(found.renamed_from)
    yield from _described(found.description)
    yield from found.metadata


def _constraints(rules: Rules, types: dict[str, PropertyType]) -> Iterator[Annotation]:
    if rules.key:
        yield _annotation("key", *(WordLiteral(name) for name in rules.key))
    for columns in rules.uniques:
        yield _annotation("unique", *(WordLiteral(name) for name in columns))
    for rule in rules.ranges:
        low, high = (
            None if value is None else _literal(value, types[rule.property])
            for value in (rule.bounds.low, rule.bounds.high)
        )
        yield _annotation("range", WordLiteral(rule.property), RangeArgument(low, high))
    for check in rules.checks:
        yield _annotation("check", WordLiteral(check.property), StringLiteral(check.pattern))


def _annotation(name: str, *arguments: Argument) -> Annotation:
    return Annotation(Name(name), arguments)


def _renamed(old: str | None) -> Iterator[Annotation]:
    if old is not None:
        yield _annotation("rename_from", WordLiteral(old))


def _described(text: str | None) -> Iterator[Annotation]:
    if text is not None:
        yield _annotation("description", StringLiteral(text))


def _type(property_type: PropertyType, nullable: bool) -> TypeExpression:
    match property_type:
        case ScalarType(scalar):
            return TypeExpression(Name(scalar.value), nullable=nullable)
        case ListType(item):
            return TypeExpression(Name(item.value), is_list=True, nullable=nullable)
        case VectorType(size):
            return TypeExpression(Name("Vector"), (NumberLiteral(str(size)),), nullable=nullable)
        case EnumType(values):
            words = tuple(WordLiteral(value) for value in values)
            return TypeExpression(Name("enum"), words, nullable=nullable)


def _literal(value: Value, property_type: PropertyType) -> Literal:
    text = value_text(value, property_type)
    match property_type:
        case EnumType() | ScalarType(Scalar.BOOL):
            return WordLiteral(text)
        case ScalarType(Scalar.STRING | Scalar.DATE | Scalar.DATETIME):
            return StringLiteral(text)
        case _:
            return NumberLiteral(text)


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
    properties = [_print_property(found) for found in body.properties]
    return [*strays, *properties, *(print_annotation(constraint) for constraint in body.constraints)]


def _print_property(found: PropertySyntax) -> str:
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
