"""Generated syntax trees: any tree of the grammar, and schemas that pass every check."""

from __future__ import annotations

from hypothesis import strategies as st

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
from omnigraph.schema.syntax import Body, Declaration, EdgeSyntax, InterfaceSyntax, NodeSyntax, PropertySyntax, Schema
from omnigraph.schema.transform import canonical, is_constraint

# Lists of names, because drawing from a pattern is many times slower.
_identifiers = st.sampled_from(
    (
        "a",
        "B",
        "_",
        "_x9",
        "camelCase",
        "Person",
        "node",
        "edge",
        "interface",
        "implements",
        "enum",
        "key",
        "String",
        "true",
    )
)
_names = _identifiers.map(Name)
_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_numbers = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
# A word of digits only would be a number, and so would `1e5`.
_words = st.sampled_from(("a", "b-c", "2x", "2024-01-01", "x--y", "_", "null", "model", "1e5x", "N0", "e5"))
literals: st.SearchStrategy[Literal] = st.one_of(
    _texts.map(StringLiteral),
    _numbers.map(NumberLiteral),
    _words.map(WordLiteral),
    st.builds(TimeLiteral, st.booleans(), _texts),
)
_arguments: st.SearchStrategy[Argument] = st.one_of(
    literals,
    st.builds(RangeArgument, st.none() | literals, st.none() | literals),
    st.builds(NamedArgument, _words.map(Name), literals),
)
_constraint_names = st.sampled_from(("key", "unique", "index", "range", "check"))
_annotation_names = _identifiers | _constraint_names | st.sampled_from(("card", "embed", "default", "rename_from"))
_argument_lists = st.lists(_arguments, max_size=3).map(tuple)
any_annotation = st.builds(Annotation, _annotation_names.map(Name), _argument_lists).map(canonical)
_annotation_lists = st.lists(any_annotation, max_size=3).map(tuple)
_own_annotations = _annotation_lists.map(
    lambda drawn: tuple(annotation for annotation in drawn if not is_constraint(annotation))
)
_constraints = _annotation_lists.map(
    lambda drawn: tuple(annotation for annotation in drawn if is_constraint(annotation))
)
_types = st.builds(
    TypeExpression, _names, st.none() | st.lists(literals, max_size=3).map(tuple), nullable=st.booleans()
) | st.builds(
    TypeExpression,
    _names,
    st.none() | st.lists(literals, max_size=3).map(tuple),
    is_list=st.just(True),
    item_nullable=st.booleans(),
    nullable=st.booleans(),
)
_properties = st.builds(PropertySyntax, _names, _types, _own_annotations)
_bodies = st.builds(Body, st.lists(_properties, max_size=3).map(tuple), _constraints, _own_annotations)
_implements = st.lists(_names, max_size=2).map(tuple)
_declarations: st.SearchStrategy[Declaration] = st.one_of(
    st.builds(InterfaceSyntax, _names, _annotation_lists, _implements, _bodies),
    st.builds(NodeSyntax, _names, _annotation_lists, _implements, _bodies),
    st.builds(EdgeSyntax, _names, _annotation_lists, _implements, _bodies, source=_names, target=_names),
)
trees = st.lists(_declarations, max_size=4).map(lambda drawn: Schema(tuple(drawn)))

_metadata = st.builds(
    Annotation, _identifiers.map(lambda text: Name(f"x_{text}")), st.lists(_arguments, max_size=2).map(tuple)
)
_SCALAR_DEFAULTS: dict[str, st.SearchStrategy[Literal]] = {
    "String": _texts.map(StringLiteral),
    "Bool": st.sampled_from((WordLiteral("true"), WordLiteral("false"))),
    "I32": st.integers(-(2**31), 2**31 - 1).map(lambda number: NumberLiteral(str(number))),
    "I64": st.integers(-(2**63), 2**63 - 1).map(lambda number: NumberLiteral(str(number))),
    "U32": st.integers(0, 2**32 - 1).map(lambda number: NumberLiteral(str(number))),
    "U64": st.integers(0, 2**64 - 1).map(lambda number: NumberLiteral(str(number))),
    "F32": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda number: NumberLiteral(repr(number))),
    "F64": st.floats(allow_nan=False, allow_infinity=False).map(lambda number: NumberLiteral(repr(number))),
    "Date": st.dates().map(lambda day: StringLiteral(day.isoformat())),
    "DateTime": st.datetimes().map(
        lambda time: StringLiteral(time.replace(microsecond=0).isoformat(timespec="milliseconds") + "Z")
    ),
}
_text_options: st.SearchStrategy[tuple[Argument, ...]] = st.sampled_from(
    (
        (),
        (NamedArgument(Name("ascii_folding"), WordLiteral("true")),),
        (
            NamedArgument(Name("stem"), StringLiteral("dutch")),
            NamedArgument(Name("ascii_folding"), WordLiteral("false")),
        ),
    )
)
_RANGED = ("I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")


@st.composite
def _valid_types(draw: st.DrawFn, kind: str, nullable: bool) -> TypeExpression:
    match kind:
        case "Vector":
            size = NumberLiteral(str(draw(st.integers(1, 65_536))))
            return TypeExpression(Name(kind), (size,), nullable=nullable)
        case "enum":
            values = draw(st.lists(_words, min_size=1, max_size=4, unique=True))
            return TypeExpression(Name(kind), tuple(WordLiteral(value) for value in values), nullable=nullable)
        case "list":
            item = draw(st.sampled_from(tuple(_SCALAR_DEFAULTS)))
            return TypeExpression(Name(item), is_list=True, nullable=nullable)
        case _:
            return TypeExpression(Name(kind), nullable=nullable)


@st.composite
def _valid_bodies(draw: st.DrawFn, prefix: str, *, edge: bool = False) -> Body:
    """Draw properties of every type, with valid defaults, indexes, keys and constraints."""
    properties: list[PropertySyntax] = []
    constraints: list[Annotation] = []
    scalars: list[str] = []
    for number in range(draw(st.integers(0, 5))):
        name = f"{prefix}{number}"
        kind = draw(st.sampled_from((*_SCALAR_DEFAULTS, "Blob", "Vector", "enum", "list")))
        nullable = draw(st.booleans())
        own = draw(st.lists(_metadata, max_size=1))
        expression = draw(_valid_types(kind, nullable))
        if kind in _SCALAR_DEFAULTS and draw(st.booleans()):
            own.append(Annotation(Name("default"), (draw(_SCALAR_DEFAULTS[kind]),)))
        elif kind in _RANGED and not edge and draw(st.booleans()):
            bound = draw(_SCALAR_DEFAULTS[kind])
            ends = draw(st.sampled_from(((bound, None), (None, bound), (bound, bound))))
            constraints.append(Annotation(Name("range"), (WordLiteral(name), RangeArgument(*ends))))
        if kind not in {"Blob", "list"} and draw(st.booleans()):
            own.append(Annotation(Name("index"), draw(_text_options) if kind == "String" else ()))
        if draw(st.booleans()):
            own.append(Annotation(Name("description"), (StringLiteral(draw(_texts)),)))
        if kind in _SCALAR_DEFAULTS and not nullable:
            scalars.append(name)
        properties.append(PropertySyntax(Name(name), expression, tuple(own)))
    with_key = draw(st.booleans())
    if scalars and with_key:
        ends_of_edge = ("src", "dst") if edge else ()
        constraints.append(Annotation(Name("key"), tuple(WordLiteral(name) for name in (*ends_of_edge, *scalars))))
        constraints.append(Annotation(Name("unique"), tuple(WordLiteral(name) for name in scalars)))
    return Body(tuple(properties), tuple(constraints))


@st.composite
def valid_schemas(draw: st.DrawFn) -> Schema:
    """Draw a valid schema: an interface, some nodes, and some edges between them."""
    declarations: list[Declaration] = [InterfaceSyntax(Name("Shared"), body=draw(_valid_bodies("i")))]
    nodes = [f"N{number}" for number in range(draw(st.integers(1, 3)))]
    for name in nodes:
        implements = (Name("Shared"),) if draw(st.booleans()) else ()
        body = draw(_valid_bodies("p"))
        if implements:
            body = Body(body.properties, tuple(rule for rule in body.constraints if rule.name.text != "key"))
        header = tuple(draw(st.lists(_metadata, max_size=1)))
        declarations.append(NodeSyntax(Name(name), header, implements, body))
    for number in range(draw(st.integers(0, 2))):
        low, extra = draw(st.integers(0, 5)), draw(st.none() | st.integers(1, 5))
        high = None if extra is None else NumberLiteral(str(low + extra))
        card = Annotation(Name("card"), (RangeArgument(NumberLiteral(str(low)), high),))
        ends = [Name(draw(st.sampled_from(nodes))) for _ in range(2)]
        body = draw(_valid_bodies("p", edge=True))
        declarations.append(EdgeSyntax(Name(f"E{number}"), (card,), body=body, source=ends[0], target=ends[1]))
    return Schema(tuple(declarations))
