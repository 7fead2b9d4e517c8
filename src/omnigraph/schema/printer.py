"""A syntax tree as canonical `.pg` text, and a catalog as a syntax tree.

In: a `Schema` or a `Catalog`. Out: a text, or a `Schema` that builds an equal catalog if the catalog is new. Nodes have
the properties of their interfaces, because the catalog has them expanded. Ids and gaps between them have no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import assert_never

from omnigraph.lang import syntax
from omnigraph.schema import property_types
from omnigraph.schema.catalog import Cardinality, Catalog, Entity, Interface, NodeType, PropertyShape, Rules
from omnigraph.schema.syntax import Body, Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax, PropertySyntax, Schema
from omnigraph.schema.values import Value, value_text


def schema_from_catalog(catalog: Catalog) -> Schema:
    """Return the syntax tree of a catalog: interfaces first, then the types in the order of their ids."""
    interfaces = [
        InterfaceSyntax(syntax.Name(interface.name), tuple(_notes(interface)), body=_body(interface))
        for interface in catalog.interfaces
    ]
    types = sorted(catalog.types, key=lambda entity: entity.id)
    return Schema((*interfaces, *(_type_declaration(catalog, entity) for entity in types)))


def _type_declaration(catalog: Catalog, entity: Entity) -> Declaration:
    name, notes, body = syntax.Name(entity.name), tuple(_notes(entity)), _body(entity)
    if isinstance(entity, NodeType):
        return NodeSyntax(name, notes, tuple(syntax.Name(interface) for interface in entity.implements), body)
    source, target = syntax.Name(catalog.source_of(entity).name), syntax.Name(catalog.target_of(entity).name)
    return EdgeSyntax(name, (*_card(entity.cardinality), *notes), body=body, source=source, target=target)


def _notes(described: Entity | Interface | PropertyShape) -> Iterator[syntax.Annotation]:
    """Return the annotations that types and properties have in common."""
    if not isinstance(described, Interface) and described.renamed_from is not None:
        yield _annotation("rename_from", syntax.WordLiteral(described.renamed_from))
    if described.description is not None:
        yield _annotation("description", syntax.StringLiteral(described.description))
    yield from described.metadata


def _card(cardinality: Cardinality) -> Iterator[syntax.Annotation]:
    if cardinality != Cardinality():
        high = None if cardinality.high is None else syntax.NumberLiteral(str(cardinality.high))
        yield _annotation("card", syntax.RangeArgument(syntax.NumberLiteral(str(cardinality.low)), high))


def _body(declared: Entity | Interface) -> Body:
    types = {shape.name: shape.type for shape in declared.properties}
    properties = tuple(_property(shape) for shape in declared.properties)
    return Body(properties, tuple(_constraints(declared.rules, types)))


def _property(shape: PropertyShape) -> PropertySyntax:
    nullable = shape.nullable and not (shape.embedding and shape.embedding.required)
    return PropertySyntax(syntax.Name(shape.name), _type(shape.type, nullable), tuple(_annotations(shape)))


def _annotations(shape: PropertyShape) -> Iterator[syntax.Annotation]:
    if shape.indexed:
        yield _annotation("index", *_text_options(shape.text_options))
    if shape.default is not None:
        yield _annotation("default", _literal(shape.default, shape.type))
    if shape.embedding:
        model = shape.embedding.model
        named = (syntax.NamedArgument(syntax.Name("model"), syntax.StringLiteral(model)),) if model is not None else ()
        yield _annotation("embed", syntax.StringLiteral(shape.embedding.source), *named)
    yield from _notes(shape)


def _text_options(options: property_types.TextOptions) -> Iterator[syntax.NamedArgument]:
    if options.ascii_folding:
        yield syntax.NamedArgument(syntax.Name("ascii_folding"), syntax.WordLiteral("true"))
    if options.stem is not None:
        yield syntax.NamedArgument(syntax.Name("stem"), syntax.StringLiteral(options.stem))


def _constraints(rules: Rules, types: dict[str, property_types.PropertyType]) -> Iterator[syntax.Annotation]:
    if rules.key:
        yield _annotation("key", *(syntax.WordLiteral(name) for name in rules.key))
    for columns in rules.uniques:
        yield _annotation("unique", *(syntax.WordLiteral(name) for name in columns))
    for rule in rules.ranges:
        low, high = (
            None if value is None else _literal(value, types[rule.property])
            for value in (rule.bounds.low, rule.bounds.high)
        )
        yield _annotation("range", syntax.WordLiteral(rule.property), syntax.RangeArgument(low, high))
    for check in rules.checks:
        yield _annotation("check", syntax.WordLiteral(check.property), syntax.StringLiteral(check.pattern))


def _annotation(name: str, *arguments: syntax.Argument) -> syntax.Annotation:
    return syntax.Annotation(syntax.Name(name), arguments)


def _type(property_type: property_types.PropertyType, nullable: bool) -> syntax.TypeExpression:
    match property_type:
        case property_types.ScalarType(scalar):
            return syntax.TypeExpression(syntax.Name(scalar.value), nullable=nullable)
        case property_types.ListType(item):
            return syntax.TypeExpression(syntax.Name(item.value), is_list=True, nullable=nullable)
        case property_types.VectorType(size):
            return syntax.TypeExpression(syntax.Name("Vector"), (syntax.NumberLiteral(str(size)),), nullable=nullable)
        case property_types.EnumType(values):
            words = tuple(syntax.WordLiteral(value) for value in values)
            return syntax.TypeExpression(syntax.Name("enum"), words, nullable=nullable)


def _literal(value: Value, property_type: property_types.PropertyType) -> syntax.Literal:
    text = value_text(value, property_type)
    match property_type:
        case property_types.EnumType() | property_types.ScalarType(property_types.Scalar.BOOL):
            return syntax.WordLiteral(text)
        case property_types.ScalarType(
            property_types.Scalar.STRING | property_types.Scalar.DATE | property_types.Scalar.DATETIME
        ):
            return syntax.StringLiteral(text)
        case _:
            return syntax.NumberLiteral(text)


def print_schema(schema: Schema) -> str:
    """Return the canonical text; empty for an empty schema."""
    return "\n".join(_declaration(declaration) for declaration in schema.declarations)


def print_annotation(annotation: syntax.Annotation) -> str:
    """Return an annotation as text."""
    text = f"@{annotation.name.text}"
    if not annotation.arguments:
        return text
    # An open end is written `*` in `@card(0..*)` and omitted everywhere else.
    open_end = "*" if annotation.name.text == "card" else ""
    return f"{text}({', '.join(_argument(argument, open_end) for argument in annotation.arguments)})"


def print_type(expression: syntax.TypeExpression) -> str:
    """Return a type as text."""
    text = expression.name.text
    if expression.parameters is not None:
        text += f"({', '.join(_argument(parameter) for parameter in expression.parameters)})"
    if expression.is_list:
        text = f"[{text}{'?' if expression.item_nullable else ''}]"
    return text + ("?" if expression.nullable else "")


def _declaration(declaration: Declaration) -> str:
    head = declaration.label
    if isinstance(declaration, EdgeSyntax):
        head += f": {declaration.source.text} -> {declaration.target.text}"
    if declaration.implements:
        head += f" implements {', '.join(name.text for name in declaration.implements)}"
    head += _annotations_text(declaration.annotations)
    lines = _body_lines(declaration.body)
    if not lines:
        return f"{head}\n" if isinstance(declaration, EdgeSyntax) else f"{head} {{}}\n"
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}", ""])


def _body_lines(body: Body) -> list[str]:
    # First, because an annotation after a property belongs to that property when the text is parsed again.
    misplaced = [print_annotation(annotation) for annotation in body.misplaced]
    properties = [
        f"{declared.name.text}: {print_type(declared.type)}{_annotations_text(declared.annotations)}"
        for declared in body.properties
    ]
    return [*misplaced, *properties, *(print_annotation(constraint) for constraint in body.constraints)]


def _annotations_text(annotations: tuple[syntax.Annotation, ...]) -> str:
    return "".join(f" {print_annotation(annotation)}" for annotation in annotations)


def _argument(argument: syntax.Argument, open_end: str = "") -> str:
    match argument:
        case syntax.StringLiteral(value):
            return json.dumps(value, ensure_ascii=False)
        case syntax.NumberLiteral(text) | syntax.WordLiteral(text):
            return text
        case syntax.TimeLiteral(text=text):
            return f"{argument.function}({json.dumps(text, ensure_ascii=False)})"
        case syntax.NamedArgument(name, value):
            return f"{name.text}={_argument(value)}"
        case syntax.RangeArgument(low, high):
            first = _argument(low) if low else ""
            return f"{first}..{_argument(high) if high else open_end}"
        case _:
            assert_never(argument)
