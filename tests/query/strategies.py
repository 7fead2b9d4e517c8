"""Generates syntax trees: every file of queries that the grammar can express."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.syntax import (
    Annotation,
    Name,
    NumberLiteral,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
    WordLiteral,
)
from omnigraph.query import syntax

_WORDS = ("a", "Person", "knows", "order", "match", "limit", "query", "set", "where", "as", "not", "in", "contains")
names = st.sampled_from((*_WORDS, "optional", "return", "null", "true", "distinct", "asc", "_x", "is")).map(Name)
# A keyword of expressions cannot be an unquoted word in an expression.
_bare = st.sampled_from(("a", "Person", "knows", "limit", "x1", "set"))
variables = st.sampled_from(("p", "q", "_", "match", "in", "P9")).map(syntax.Variable)
_numbers = st.integers(0, 10**20).map(str) | st.sampled_from(("1.5", "0.25", "1e5", "2.5e-3"))
_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_atoms: st.SearchStrategy[syntax.Expression] = st.one_of(
    variables,
    st.builds(syntax.Access, variables, names),
    _numbers.map(NumberLiteral),
    _numbers.map(lambda text: NumberLiteral(f"-{text}")),
    _texts.map(StringLiteral),
    st.builds(TimeLiteral, st.booleans(), _texts),
    st.booleans().map(syntax.BoolLiteral),
    st.just(syntax.NullLiteral()),
)
_call_names = st.sampled_from(("count", "nearest", "a", "now")).map(Name)


def _joined(
    inner: st.SearchStrategy[syntax.Expression], junction: syntax.Junction
) -> st.SearchStrategy[syntax.Expression]:
    """Join operands; those that are joined with the same operator would be parsed as one list."""
    own = inner.filter(lambda operand: not (isinstance(operand, syntax.Joined) and operand.junction is junction))
    return st.lists(own, min_size=2, max_size=3).map(lambda operands: syntax.Joined(junction, tuple(operands)))


def _extended(inner: st.SearchStrategy[syntax.Expression]) -> st.SearchStrategy[syntax.Expression]:
    named = st.lists(st.builds(syntax.CallArgument, _bare.map(Name), inner.filter(_is_operand)), max_size=1).map(tuple)
    arguments = st.lists(inner.filter(_is_positional), max_size=2).map(tuple)
    return st.one_of(
        st.builds(syntax.ListLiteral, st.lists(inner, max_size=3).map(tuple)),
        st.builds(syntax.Call, _call_names, arguments, named, st.booleans()),
        st.builds(
            syntax.Negative,
            inner.filter(lambda operand: not (isinstance(operand, NumberLiteral) and not operand.text.startswith("-"))),
        ),
        st.builds(syntax.Arithmetic, st.sampled_from(syntax.Sign), inner, inner),
        st.builds(syntax.Comparison, st.sampled_from(syntax.ComparisonOperator), inner, inner),
        st.builds(syntax.NullTest, inner, st.booleans()),
        st.builds(syntax.Inversion, inner),
        _joined(inner, syntax.Junction.AND),
        _joined(inner, syntax.Junction.OR),
    )


def _is_operand(expression: syntax.Expression) -> bool:
    return not isinstance(expression, syntax.Comparison | syntax.NullTest | syntax.Joined | syntax.Inversion)


def _is_positional(expression: syntax.Expression) -> bool:
    """Return whether an expression is not `word = value`, which is a named argument."""
    return not (
        isinstance(expression, syntax.Comparison)
        and expression.operator is syntax.ComparisonOperator.EQ
        and isinstance(expression.left, syntax.Word)
    )


expressions = st.recursive(_atoms, _extended, max_leaves=6)
_with_words = st.recursive(_atoms | _bare.map(syntax.Word), _extended, max_leaves=5)

_assignments = st.lists(st.builds(syntax.Assignment, names, expressions), max_size=2).map(tuple)
_bounds = st.builds(
    syntax.Bounds, st.integers(0, 9).map(lambda n: NumberLiteral(str(n))), st.none() | _numbers.map(NumberLiteral)
)
_edge_names = st.sampled_from(("knows", "contains", "in", "starts_with", "Person", "limit", "not_x")).map(Name)
_plain_edges = st.sampled_from(("knows", "match", "in")).map(Name)
_traversals = st.one_of(
    st.builds(
        syntax.Traversal, variables, _edge_names, variables, st.just(False), st.none() | _bounds, st.none() | variables
    ),
    st.builds(
        syntax.Traversal, variables, _plain_edges, variables, st.just(True), st.none() | _bounds, st.none() | variables
    ),
)
_clauses: st.SearchStrategy[syntax.Clause] = st.recursive(
    st.one_of(
        st.builds(syntax.Binding, variables, names, _assignments), _traversals, st.builds(syntax.Filter, expressions)
    ),
    lambda inner: (
        st.builds(syntax.NotBlock, st.lists(inner, max_size=2).map(tuple))
        | st.builds(syntax.OptionalBlock, st.lists(inner, max_size=2).map(tuple))
    ),
    max_leaves=4,
)
_counts = st.integers(0, 99).map(lambda n: NumberLiteral(str(n))) | variables
_reads = st.builds(
    syntax.ReadBody,
    st.lists(_clauses, max_size=3).map(tuple),
    st.lists(st.builds(syntax.Projection, expressions, st.none() | names), max_size=3).map(tuple),
    st.none() | st.lists(st.builds(syntax.Ordering, _with_words, st.none() | st.booleans()), max_size=2).map(tuple),
    st.none() | st.builds(syntax.Limit, _counts, st.none() | _counts),
)
_mutations = st.lists(
    st.one_of(
        st.builds(syntax.Insert, names, _assignments),
        st.builds(syntax.Update, names, _assignments, _with_words),
        st.builds(syntax.Delete, names, _with_words),
    ),
    min_size=1,
    max_size=3,
).map(lambda statements: syntax.MutationBody(tuple(statements)))
_types = st.builds(
    TypeExpression,
    names,
    st.none() | st.lists(_numbers.map(NumberLiteral) | st.just(WordLiteral("b-c")), max_size=2).map(tuple),
    st.booleans(),
    st.just(False),
    st.booleans(),
)
_annotations = st.builds(
    Annotation, names, st.lists(_texts.map(StringLiteral) | st.just(WordLiteral("x")), max_size=2).map(tuple)
)
_queries = st.builds(
    syntax.Query,
    names,
    st.lists(st.builds(syntax.Parameter, variables, _types), max_size=2).map(tuple),
    st.lists(_annotations, max_size=2).map(tuple),
    _reads | _mutations,
)
files = st.lists(_queries, max_size=2).map(lambda queries: syntax.QueryFile(tuple(queries)))
