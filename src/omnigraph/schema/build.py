"""The catalog of a new schema, from its syntax tree.

In: a `Schema`, and a source of incarnations. Out: a `Catalog` with type ids counted from 1 in the order of the text and
property ids from 1 in the order of each type; the same text and incarnations give the same catalog. The tree is checked
first, so a tree with errors raises `SchemaTextError`. Never reads an earlier catalog: `evolution` compares catalogs to
decide which ids a changed schema keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.base.ids import Incarnation, PropertyId, new_incarnation, type_id_from_number
from omnigraph.lang.syntax import Annotation, NamedArgument, RangeArgument, StringLiteral, WordLiteral
from omnigraph.schema import catalog, resolve
from omnigraph.schema.checks.declarations import cardinality_bound
from omnigraph.schema.checks.run import require_valid_schema
from omnigraph.schema.property_types import PLAIN_TEXT, PropertyType, TextOptions
from omnigraph.schema.syntax import Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax, PropertySyntax, Schema
from omnigraph.schema.values import InvalidValue, RangeBounds, Value, range_bounds, value_from_literal


def build_catalog(schema: Schema, *, new_incarnation: Callable[[], Incarnation] = new_incarnation) -> catalog.Catalog:
    """Check a schema and return its catalog, with new ids."""
    require_valid_schema(schema)
    tables = [declaration for declaration in schema.declarations if not isinstance(declaration, InterfaceSyntax)]
    ids = {declaration.name.text: type_id_from_number(number) for number, declaration in enumerate(tables, start=1)}
    interfaces = {
        declaration.name.text: declaration
        for declaration in schema.declarations
        if isinstance(declaration, InterfaceSyntax)
    }
    nodes: list[catalog.NodeType] = []
    edges: list[catalog.EdgeType] = []
    for declaration in tables:
        parts = _entity_parts(declaration, interfaces)
        parts |= {"id": ids[declaration.name.text], "incarnation": new_incarnation()}
        if isinstance(declaration, NodeSyntax):
            nodes.append(catalog.NodeType(**parts, implements=tuple(name.text for name in declaration.implements)))
        else:
            source, target = ids[declaration.source.text], ids[declaration.target.text]
            cardinality = _cardinality(declaration.annotations)
            edges.append(catalog.EdgeType(**parts, source=source, target=target, cardinality=cardinality))
    return catalog.Catalog(
        nodes=tuple(nodes),
        edges=tuple(edges),
        interfaces=tuple(_interface(declaration) for declaration in interfaces.values()),
        next_type_id=len(tables) + 1,
    )


def _interface(declaration: InterfaceSyntax) -> catalog.Interface:
    properties, rules = _shapes_and_rules(declaration, {})
    return catalog.Interface(
        name=declaration.name.text,
        properties=properties,
        rules=rules,
        description=_text_of(declaration.annotations, "description"),
        metadata=resolve.metadata_of(declaration.annotations),
    )


def _entity_parts(declaration: NodeSyntax | EdgeSyntax, interfaces: Mapping[str, InterfaceSyntax]) -> dict[str, Any]:
    """Return the parts that nodes and edges have in common, except for their ids."""
    shapes, rules = _shapes_and_rules(declaration, interfaces)
    return {
        "name": declaration.name.text,
        "properties": tuple(
            catalog.Property.from_shape(shape, PropertyId(number)) for number, shape in enumerate(shapes, start=1)
        ),
        "next_property_id": PropertyId(len(shapes) + 1),
        "rules": rules,
        "description": _text_of(declaration.annotations, "description"),
        "renamed_from": _text_of(declaration.annotations, "rename_from"),
        "metadata": resolve.metadata_of(declaration.annotations),
    }


def _shapes_and_rules(
    declaration: Declaration, interfaces: Mapping[str, InterfaceSyntax]
) -> tuple[tuple[catalog.PropertyShape, ...], catalog.Rules]:
    expansion = resolve.expand(declaration, interfaces)
    indexed = {
        name: resolve.text_options(group.annotation)[0]
        for group in resolve.column_lists(expansion.properties, expansion.constraints, "index")
        for name in group.names
    }
    shapes = tuple(_shape(declared, indexed.get(declared.name.text)) for declared in expansion.properties)
    types = {shape.name: shape.type for shape in shapes}
    return shapes, _build_rules(expansion, types)


def _build_rules(expansion: resolve.Expansion, types: Mapping[str, PropertyType]) -> catalog.Rules:
    """Return every rule once, annotations of properties before constraints of the body."""
    uniques: dict[frozenset[str], tuple[str, ...]] = {}
    for columns in _column_lists(expansion, "unique"):
        uniques.setdefault(frozenset(columns), columns)
    ranges: dict[catalog.RangeRule, None] = {}
    checks: dict[catalog.CheckRule, None] = {}
    for constraint in expansion.constraints:
        match constraint.name.text, constraint.arguments:
            case "range", [WordLiteral(name), RangeArgument() as bounds]:
                parsed = range_bounds(bounds, types[name])
                assert isinstance(parsed, RangeBounds), "require_valid_schema rejects it"
                ranges[catalog.RangeRule(name, parsed)] = None
            case "check", [WordLiteral(name), StringLiteral(pattern)]:
                checks[catalog.CheckRule(name, pattern)] = None
    key = next(iter(_column_lists(expansion, "key")), ())
    return catalog.Rules(key, tuple(uniques.values()), tuple(ranges), tuple(checks))


def _column_lists(expansion: resolve.Expansion, kind: str) -> list[tuple[str, ...]]:
    return [group.names for group in resolve.column_lists(expansion.properties, expansion.constraints, kind)]


def _shape(declared: PropertySyntax, index: TextOptions | None) -> catalog.PropertyShape:
    """Return a property; `index` has the options of its index, None without one."""
    resolved = resolve.resolve_type(declared.type)
    assert not isinstance(resolved, resolve.InvalidType), "require_valid_schema rejects it"
    annotations = declared.annotations
    embedding = _embedding(annotations, required=not declared.type.nullable)
    return catalog.PropertyShape(
        name=declared.name.text,
        type=resolved,
        nullable=declared.type.nullable or embedding is not None,
        indexed=index is not None,
        text_options=index or PLAIN_TEXT,
        default=_default(annotations, resolved),
        embedding=embedding,
        description=_text_of(annotations, "description"),
        renamed_from=_text_of(annotations, "rename_from"),
        metadata=resolve.metadata_of(annotations),
    )


def _default(annotations: tuple[Annotation, ...], resolved: PropertyType) -> Value | None:
    arguments = resolve.arguments_of(annotations, "default")
    if not arguments:
        return None
    literal = arguments[0]
    assert not isinstance(literal, RangeArgument | NamedArgument), "require_valid_schema rejects it"
    value = value_from_literal(literal, resolved)
    assert not isinstance(value, InvalidValue), "require_valid_schema rejects it"
    return value


def _embedding(annotations: tuple[Annotation, ...], *, required: bool) -> catalog.Embedding | None:
    match resolve.arguments_of(annotations, "embed"):
        case [StringLiteral(source)]:
            return catalog.Embedding(source, required=required)
        case [StringLiteral(source), NamedArgument(_, StringLiteral(model))]:
            return catalog.Embedding(source, model, required)
        case _:
            return None


def _cardinality(annotations: tuple[Annotation, ...]) -> catalog.Cardinality:
    match resolve.arguments_of(annotations, "card"):
        case [RangeArgument(low, high)]:
            return catalog.Cardinality(cardinality_bound(low) or 0, cardinality_bound(high))
        case _:
            return catalog.Cardinality()


def _text_of(annotations: tuple[Annotation, ...], name: str) -> str | None:
    """Return the argument of an annotation that takes one string or one name."""
    match resolve.arguments_of(annotations, name):
        case [StringLiteral(text)] | [WordLiteral(text)]:
            return text
        case _:
            return None
