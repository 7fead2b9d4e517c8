"""A syntax tree to the catalog of a fresh schema.

Comes in: a `Schema`, and where incarnations come from. Goes out: a `Catalog` with type ids counted from 1 in the order
of the text and property ids from 1 in the order of each type; the same text and incarnations give the same catalog.
Checks first, so a tree with mistakes raises `SchemaTextError`. Never looks at an earlier catalog: what a changed schema
does to existing ids is decided by comparing catalogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from omnigraph.base.ids import Incarnation, PropertyId, TypeId, new_incarnation, type_id_from_number
from omnigraph.lang.syntax import Annotation, NamedArgument, RangeArgument, StringLiteral, WordLiteral
from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
)
from omnigraph.schema.checks.declarations import cardinality_bound
from omnigraph.schema.checks.run import check_schema
from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.resolve import (
    Expansion,
    TypeMistake,
    expand,
    find_annotation,
    metadata_of,
    resolve_type,
)
from omnigraph.schema.syntax import (
    Declaration,
    EdgeSyntax,
    InterfaceSyntax,
    NodeSyntax,
    PropertySyntax,
    Schema,
)
from omnigraph.schema.values import RangeBounds, Value, ValueMistake, range_bounds, value_from_literal


def build_rules(expansion: Expansion, types: Mapping[str, PropertyType]) -> Rules:
    """Every rule once, properties' own annotations before the body's constraints."""
    keys = list(_column_lists(expansion, "key"))
    uniques: dict[frozenset[str], tuple[str, ...]] = {}
    for columns in _column_lists(expansion, "unique"):
        uniques.setdefault(frozenset(columns), columns)
    return Rules(
        key=keys[0] if keys else (),
        uniques=tuple(uniques.values()),
        ranges=tuple(dict.fromkeys(_ranges(expansion.constraints, types))),
        checks=tuple(dict.fromkeys(_checks(expansion.constraints))),
    )


def _column_lists(expansion: Expansion, kind: str) -> Iterator[tuple[str, ...]]:
    for found in expansion.properties:
        if find_annotation(found.annotations, kind):
            yield (found.name.text,)
    for constraint in expansion.constraints:
        if constraint.name.text == kind:
            names = (argument.text for argument in constraint.arguments if isinstance(argument, WordLiteral))
            yield tuple(names)


def _ranges(constraints: tuple[Annotation, ...], types: Mapping[str, PropertyType]) -> Iterator[RangeRule]:
    for constraint in constraints:
        match constraint.name.text, constraint.arguments:
            case "range", [WordLiteral(name), RangeArgument() as bounds]:
                read = range_bounds(bounds, types[name])
                assert isinstance(read, RangeBounds), "the checks ran before"
                yield RangeRule(name, read)


def _checks(constraints: tuple[Annotation, ...]) -> Iterator[CheckRule]:
    for constraint in constraints:
        match constraint.name.text, constraint.arguments:
            case "check", [WordLiteral(name), StringLiteral(pattern)]:
                yield CheckRule(name, pattern)


def build_catalog(schema: Schema, *, new_incarnation: Callable[[], Incarnation] = new_incarnation) -> Catalog:
    """The catalog of a schema that no graph has yet."""
    check_schema(schema)
    tables = [found for found in schema.declarations if not isinstance(found, InterfaceSyntax)]
    ids = {found.name.text: type_id_from_number(number) for number, found in enumerate(tables, start=1)}
    interfaces = {
        found.name.text: found for found in schema.declarations if isinstance(found, InterfaceSyntax)
    }
    nodes: list[NodeType] = []
    edges: list[EdgeType] = []
    for found in tables:
        if isinstance(found, NodeSyntax):
            nodes.append(_node(found, ids, new_incarnation(), interfaces))
        else:
            edges.append(_edge(found, ids, new_incarnation()))
    return Catalog(
        tuple(nodes),
        tuple(edges),
        tuple(_interface(found) for found in interfaces.values()),
        next_type_id=len(tables) + 1,
    )


def _interface(declaration: InterfaceSyntax) -> Interface:
    properties, rules = _shapes_and_rules(declaration, {})
    return Interface(
        name=declaration.name.text,
        properties=properties,
        rules=rules,
        description=_text_of(declaration.annotations, "description"),
        metadata=metadata_of(declaration.annotations),
    )


def _node(
    declaration: NodeSyntax,
    ids: Mapping[str, TypeId],
    incarnation: Incarnation,
    interfaces: Mapping[str, InterfaceSyntax],
) -> NodeType:
    shapes, rules = _shapes_and_rules(declaration, interfaces)
    return NodeType(
        id=ids[declaration.name.text],
        incarnation=incarnation,
        name=declaration.name.text,
        properties=_numbered(shapes),
        next_property_id=PropertyId(len(shapes) + 1),
        rules=rules,
        description=_text_of(declaration.annotations, "description"),
        renamed_from=_text_of(declaration.annotations, "rename_from"),
        metadata=metadata_of(declaration.annotations),
        implements=tuple(name.text for name in declaration.implements),
    )


def _edge(declaration: EdgeSyntax, ids: Mapping[str, TypeId], incarnation: Incarnation) -> EdgeType:
    shapes, rules = _shapes_and_rules(declaration, {})
    return EdgeType(
        id=ids[declaration.name.text],
        incarnation=incarnation,
        name=declaration.name.text,
        properties=_numbered(shapes),
        next_property_id=PropertyId(len(shapes) + 1),
        rules=rules,
        description=_text_of(declaration.annotations, "description"),
        renamed_from=_text_of(declaration.annotations, "rename_from"),
        metadata=metadata_of(declaration.annotations),
        source=ids[declaration.source.text],
        target=ids[declaration.target.text],
        cardinality=_cardinality(declaration.annotations),
    )


def _shapes_and_rules(
    declaration: Declaration, interfaces: Mapping[str, InterfaceSyntax]
) -> tuple[tuple[PropertyShape, ...], Rules]:
    expansion = expand(declaration, interfaces)
    indexed = {
        argument.text
        for constraint in expansion.constraints
        for argument in constraint.arguments
        if constraint.name.text == "index" and isinstance(argument, WordLiteral)
    }
    shapes = tuple(_shape(found, found.name.text in indexed) for found in expansion.properties)
    types = {shape.name: shape.type for shape in shapes}
    return shapes, build_rules(expansion, types)


def _numbered(shapes: tuple[PropertyShape, ...]) -> tuple[Property, ...]:
    return tuple(
        Property.from_shape(shape, PropertyId(number)) for number, shape in enumerate(shapes, start=1)
    )


def _shape(found: PropertySyntax, indexed_in_body: bool) -> PropertyShape:
    resolved = resolve_type(found.type)
    assert not isinstance(resolved, TypeMistake), "the checks ran before"
    given = found.annotations
    embedding = _embedding(given, required=not found.type.nullable)
    return PropertyShape(
        name=found.name.text,
        type=resolved,
        nullable=found.type.nullable or embedding is not None,
        indexed=indexed_in_body or find_annotation(given, "index") is not None,
        default=_default(given, resolved),
        embedding=embedding,
        description=_text_of(given, "description"),
        renamed_from=_text_of(given, "rename_from"),
        metadata=metadata_of(given),
    )


def _default(given: tuple[Annotation, ...], resolved: PropertyType) -> Value | None:
    annotation = find_annotation(given, "default")
    if annotation is None:
        return None
    literal = annotation.arguments[0]
    assert not isinstance(literal, RangeArgument | NamedArgument), "the checks ran before"
    value = value_from_literal(literal, resolved)
    assert not isinstance(value, ValueMistake), "the checks ran before"
    return value


def _embedding(given: tuple[Annotation, ...], *, required: bool) -> Embedding | None:
    annotation = find_annotation(given, "embed")
    match annotation.arguments if annotation else ():
        case [StringLiteral(source)]:
            return Embedding(source, required=required)
        case [StringLiteral(source), NamedArgument(_, StringLiteral(model))]:
            return Embedding(source, model, required)
        case _:
            return None


def _cardinality(given: tuple[Annotation, ...]) -> Cardinality:
    annotation = find_annotation(given, "card")
    match annotation.arguments if annotation else ():
        case [RangeArgument(low, high)]:
            return Cardinality(cardinality_bound(low) or 0, cardinality_bound(high))
        case _:
            return Cardinality()


def _text_of(given: tuple[Annotation, ...], name: str) -> str | None:
    """The one argument of an annotation that takes a string or a name."""
    annotation = find_annotation(given, name)
    match annotation.arguments if annotation else ():
        case [StringLiteral(text)] | [WordLiteral(text)]:
            return text
        case _:
            return None
