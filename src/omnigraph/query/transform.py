"""The parser's tree to the syntax tree.

Comes in: a tree that follows the grammar and is not too deep. Goes out: the queries. The only mistakes it can find are
escapes in strings and literals that are too large. A minus before a number becomes part of the number, `name=value`
among the arguments of a call a named argument, `date("…")` and `datetime("…")` literals, as `true`, `false` and `null`.
"""

from __future__ import annotations

import re
from typing import Final

from lark import Token, Transformer, Tree, UnexpectedInput

from omnigraph.base import limits
from omnigraph.lang import syntax as lang_syntax
from omnigraph.lang.parsing import (
    ESCAPES_HINT,
    TypePart,
    either,
    expected_terminals,
    found_text,
    position_of,
    span_of,
    token_span,
    type_expression,
    unescaped,
)
from omnigraph.lang.problems import QueryProblems
from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    Literal,
    Name,
    NumberLiteral,
    Span,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
    WordLiteral,
)
from omnigraph.query.codes import QueryCode
from omnigraph.query.syntax import (
    Access,
    Arithmetic,
    Assignment,
    Binding,
    BoolLiteral,
    Bounds,
    Call,
    CallArgument,
    Clause,
    Comparison,
    ComparisonOperator,
    Delete,
    Expression,
    Filter,
    Insert,
    Inversion,
    Joined,
    Junction,
    Limit,
    ListLiteral,
    MutationBody,
    Negative,
    NotBlock,
    NullLiteral,
    NullTest,
    OptionalBlock,
    Ordering,
    Parameter,
    Projection,
    Query,
    ReadBody,
    Sign,
    Statement,
    Traversal,
    Update,
    Variable,
    Word,
)

_WORDS: Final = {
    "$END": "the end of the text",
    "ANNOTATION": "an annotation",
    "COLON": "`:`",
    "COMMA": "`,`",
    "COMPARISON": "a comparison",
    "CONTAINS": "`contains`",
    "DIRECTION": "`asc` or `desc`",
    "DISTINCT": "`distinct`",
    "DOT": "`.`",
    "EQUAL": "`=`",
    "IN": "`in`",
    "LBRACE": "`{`",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "MINUS": "`-`",
    "NAME": "a name",
    "NOT": "`not`",
    "NUMBER": "a number",
    "OPTIONAL": "`optional`",
    "PLUS": "`+`",
    "QMARK": "`?`",
    "RBRACE": "`}`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "SLASH": "`/`",
    "STAR": "`*`",
    "STARTS_WITH": "`starts_with`",
    "STRING": "a string",
    "UNDIRECTED": "`<edge>`",
    "VARIABLE": "a variable",
    "WORD": "a word",
}
_EXPECTED_MAX: Final = 8
_HEADER: Final = re.compile(r"^[ \t]*query[ \t]+([A-Za-z_][A-Za-z0-9_]{0,127})", re.MULTILINE)
_TOKEN: Final = re.compile(r"\$?[A-Za-z0-9_]+|\S")
_HINTS: Final = {
    "==": "equality is written `=`",
    "<>": "inequality is written `!=`",
    "&&": "write `and`",
    "||": "write `or`",
    "->": "write `$a edge $b`; the order of the variables is the direction",
    "/*": "this comment has no `*/`",
}
_WORD_HINTS: Final = {
    "where": "conditions of a `match` stand beside the other clauses, without `where`",
    "like": "write `contains` or `starts_with`",
    "select": "write `return { … }`",
    "not": "write `not ($x.p in [ … ])`",
}
_BODY_WORDS: Final = frozenset({"match", "return", "insert", "update", "delete"})


def report_syntax_error(error: UnexpectedInput, text: str, problems: QueryProblems) -> int:
    """Add the problem and return the offset in the text where it is."""
    position = position_of(error, text)
    token = _TOKEN.match(text, position)
    message = f"{query_at(position, text)}unexpected {found_text(token)}"
    problems.report(QueryCode.SYNTAX, span_of(token, position, text), message, _hint(error, position, text))
    return position


def query_at(position: int, text: str) -> str:
    """The query that the place belongs to, as a prefix of the sentence."""
    last: re.Match[str] | None = None
    for header in _HEADER.finditer(text, 0, position):
        last = header
    return f"query {last.group(1)}: " if last else ""


def _hint(error: UnexpectedInput, position: int, text: str) -> str:
    rest = text[position : position + 2]
    before = text[max(0, position - 1) : position + 1]
    expected = sorted({_word(name) for name in expected_terminals(error)})
    if rest.startswith('"') and _string_has_no_end(position, text):
        return 'a string ends with `"` on the line where it starts'
    if rest[:1] in {"'", "‘", "“"}:
        return 'strings stand in double quotes: "…"'
    for pair in (rest, before):
        if pair in _HINTS:
            return _HINTS[pair]
    if rest[:1] == ";":
        return "clauses are separated by space only"
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "names have the letters A to Z and a to z, digits and `_`"
    word = _TOKEN.match(text, position)
    if word and word.group().lower() in _BODY_WORDS and "`query`" in expected:
        return "a query has a name: write `query name() { … }` around it"
    if word and word.group().lower() in _WORD_HINTS:
        return _WORD_HINTS[word.group().lower()]
    if "a variable" in expected and _follows_bare_variable(position, text):
        return "this reads as a traversal; a filter that begins with a parameter stands in parentheses"
    return f"expected {_either(expected)}" if expected else ""


def _string_has_no_end(position: int, text: str) -> bool:
    line_end = text.find("\n", position)
    line = text[position + 1 : line_end if line_end >= 0 else len(text)]
    return '"' not in line.replace('\\"', "")


def _follows_bare_variable(position: int, text: str) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    return re.search(r"\$\w+\s+(?:contains|starts_with|in)\s*$", text[line_start:position]) is not None


def _word(name: str) -> str:
    """Keywords are terminals that begin with `_` and are named like the word."""
    return f"`{name[1:].lower()}`" if name.startswith("_") else _WORDS.get(name, name)


def _either(words: list[str]) -> str:
    if len(words) > _EXPECTED_MAX:
        return "another expression, an operator or the end of this one"
    return either(words)


_EXPONENT: Final = re.compile(r"[eE]([+-]?)0*([0-9]*)$")


def build_tree(tree: Tree[Token], problems: QueryProblems) -> tuple[Query, ...]:
    """The queries of a parsed text, in order."""
    return _QueryBuilder(problems).transform(tree)


class _Expressions(Transformer[Token, tuple[Query, ...]]):
    """The rules of expressions and the terminals."""

    def __init__(self, problems: QueryProblems) -> None:
        super().__init__()
        self._problems = problems

    def disjunction(self, operands: list[Expression]) -> Joined:
        return Joined(Junction.OR, _flattened(operands, Junction.OR))

    def conjunction(self, operands: list[Expression]) -> Joined:
        return Joined(Junction.AND, _flattened(operands, Junction.AND))

    def inversion(self, parts: tuple[Token, Expression]) -> Inversion:
        return Inversion(parts[1], token_span(parts[0]))

    def comparison(self, parts: tuple[Expression, Token, Expression]) -> Comparison:
        left, operator, right = parts
        return Comparison(ComparisonOperator(str(operator)), left, right, token_span(operator))

    def null_test(self, parts: list[Expression | Token]) -> NullTest:
        operand = parts[0]
        assert not isinstance(operand, Token)
        return NullTest(operand, negated=len(parts) > 1)

    def arithmetic(self, parts: tuple[Expression, Token, Expression]) -> Arithmetic:
        left, sign, right = parts
        return Arithmetic(Sign(str(sign)), left, right, token_span(sign))

    def negative(self, parts: tuple[Token, Expression]) -> Expression:
        sign, operand = parts
        if isinstance(operand, NumberLiteral) and not operand.text.startswith("-"):
            return NumberLiteral(f"-{operand.text}", token_span(sign))
        return Negative(operand, token_span(sign))

    def access(self, parts: tuple[Variable, Name]) -> Access:
        return Access(*parts)

    def word(self, parts: tuple[Name]) -> Expression:
        (name,) = parts
        match name.text:
            case "true" | "false":
                return BoolLiteral(name.text == "true", name.span)
            case "null":
                return NullLiteral(name.span)
            case text:
                return Word(text, name.span)

    def call(self, parts: list[Name | Token | Expression]) -> Call | TimeLiteral:
        name, *rest = parts
        assert isinstance(name, Name)
        match name.text, rest:
            case "date" | "datetime", [StringLiteral(time_text)]:
                return TimeLiteral(name.text == "datetime", time_text, name.span)
        distinct = any(isinstance(part, Token) for part in rest)
        arguments: list[Expression] = []
        named: list[CallArgument] = []
        for part in rest:
            match part:
                case Comparison(ComparisonOperator.EQ, Word(text, span), value):
                    named.append(CallArgument(Name(text, span), value))
                case Token() | Name():
                    pass
                case expression:
                    arguments.append(expression)
        return Call(name, tuple(arguments), tuple(named), distinct)

    def VARIABLE(self, token: Token) -> Variable:  # noqa: N802 - lark calls the method of a terminal by its name
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return Variable(str(token)[1:], token_span(token))

    def NAME(self, token: Token) -> Name:  # noqa: N802
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return Name(str(token), token_span(token))

    def ANNOTATION(self, token: Token) -> Name:  # noqa: N802
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return Name(str(token)[1:], token_span(token))

    def WORD(self, token: Token) -> WordLiteral:  # noqa: N802
        return WordLiteral(str(token), token_span(token))

    def NUMBER(self, token: Token) -> NumberLiteral:  # noqa: N802
        self._check_length(token, limits.QUERY_NUMBER_LENGTH_MAX, "a number")
        exponent = _EXPONENT.search(token)
        if exponent and (len(exponent[2]) > 9 or int(exponent[2] or "0") > limits.QUERY_NUMBER_EXPONENT_MAX):
            message = f"a number has an exponent beyond {limits.QUERY_NUMBER_EXPONENT_MAX}"
            self._report(QueryCode.LITERAL_TOO_LARGE, token, message)
        return NumberLiteral(str(token), token_span(token))

    def STRING(self, token: Token) -> StringLiteral:  # noqa: N802
        self._check_length(token, limits.QUERY_STRING_LENGTH_MAX, "a string")
        return StringLiteral(self._unescape(token), token_span(token))

    def _check_length(self, token: Token, length_max: int, what: str) -> None:
        if len(token) > length_max:
            message = f"{what} is {len(token)} characters long, more than {length_max}"
            hint = "" if what == "a name" else "give long values as parameters"
            self._report(QueryCode.LITERAL_TOO_LARGE, token, message, hint)

    def _unescape(self, token: Token) -> str:
        """The string's characters; an escape that does not exist is reported and left as it stands."""
        inner = str(token)[1:-1]
        value = unescaped(inner)
        if isinstance(value, str):
            return value
        self._report(QueryCode.STRING_ESCAPE, token, value.message, ESCAPES_HINT)
        return inner

    def _report(self, code: QueryCode, token: Token, message: str, hint: str = "") -> None:
        where = query_at(token.start_pos or 0, self._problems.text)
        self._problems.report(code, token_span(token), where + message, hint)


class _QueryBuilder(_Expressions):
    """The rules of queries, clauses and statements."""

    def start(self, queries: list[Query]) -> tuple[Query, ...]:
        return tuple(queries)

    def query(self, parts: list[Name | Parameter | Annotation | ReadBody | MutationBody]) -> Query:
        name, body = parts[0], parts[-1]
        assert isinstance(name, Name)
        assert isinstance(body, ReadBody | MutationBody)
        return Query(
            name,
            tuple(part for part in parts if isinstance(part, Parameter)),
            tuple(part for part in parts if isinstance(part, Annotation)),
            body,
        )

    def parameter(self, parts: tuple[Variable, TypeExpression]) -> Parameter:
        return Parameter(*parts)

    def plain_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=False)

    def list_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=True)

    def type_parameters(self, literals: list[Literal]) -> tuple[Literal, ...]:
        return tuple(literals)

    def annotation(self, parts: list[Name | Argument]) -> Annotation:
        name, *arguments = parts
        assert isinstance(name, Name)
        return Annotation(name, tuple(part for part in arguments if not isinstance(part, Name)))

    def named_literal(self, parts: tuple[WordLiteral, Literal]) -> lang_syntax.NamedArgument:
        word, value = parts
        return lang_syntax.NamedArgument(Name(word.text, word.span), value)

    def read(self, parts: list[tuple[Clause, ...] | list[Projection] | list[Ordering] | Limit]) -> ReadBody:
        clauses, projections, *rest = parts
        assert isinstance(clauses, tuple)
        assert isinstance(projections, list)
        order = next((tuple(part) for part in rest if isinstance(part, list)), None)
        limit = next((part for part in rest if isinstance(part, Limit)), None)
        return ReadBody(clauses, tuple(projections), order, limit)  # type: ignore[arg-type]  # by position

    def match(self, clauses: list[Clause]) -> tuple[Clause, ...]:
        return tuple(clauses)

    def binding(self, parts: list[Variable | Name | tuple[Assignment, ...]]) -> Binding:
        variable, name, *rest = parts
        assert isinstance(variable, Variable)
        assert isinstance(name, Name)
        return Binding(variable, name, next((part for part in rest if isinstance(part, tuple)), ()))

    def properties(self, assignments: list[Assignment]) -> tuple[Assignment, ...]:
        return tuple(assignments)

    def property(self, parts: tuple[Name, Expression]) -> Assignment:
        return Assignment(*parts)

    def traversal(self, parts: list[Variable | Tree[Variable] | Name | Token | Bounds]) -> Traversal:
        source, target = parts[0], parts[-1]
        assert isinstance(source, Variable)
        assert isinstance(target, Variable)
        edge = next(part for part in parts if isinstance(part, Name | Token))
        bound = next((part.children[0] for part in parts if isinstance(part, Tree)), None)
        assert bound is None or isinstance(bound, Variable)
        return Traversal(
            source,
            Name(str(edge).strip("<> \t"), token_span(edge)) if isinstance(edge, Token) else edge,
            target,
            undirected=isinstance(edge, Token),
            bounds=next((part for part in parts if isinstance(part, Bounds)), None),
            binding=bound,
        )

    def edge_name(self, parts: tuple[Name | Token]) -> Name:
        (name,) = parts
        return name if isinstance(name, Name) else Name(str(name), token_span(name))

    def bounds(self, parts: list[NumberLiteral]) -> Bounds:
        return Bounds(parts[0], parts[1] if len(parts) > 1 else None, parts[0].span)

    def filter(self, parts: tuple[Expression]) -> Filter:
        return Filter(parts[0])

    def not_block(self, parts: list[Token | Clause]) -> NotBlock:
        return NotBlock(_clauses(parts), _keyword_span(parts))

    def optional_block(self, parts: list[Token | Clause]) -> OptionalBlock:
        return OptionalBlock(_clauses(parts), _keyword_span(parts))

    def projection(self, parts: tuple[Expression] | tuple[Expression, Name]) -> Projection:
        return Projection(*parts)

    def returned(self, projections: list[Projection]) -> list[Projection]:
        return projections

    def ordered(self, orderings: list[Ordering]) -> list[Ordering]:
        return orderings

    def ordering(self, parts: tuple[Expression] | tuple[Expression, Token]) -> Ordering:
        return Ordering(parts[0], descending=str(parts[1]) == "desc" if len(parts) > 1 else None)

    def limit(self, parts: tuple[NumberLiteral | Variable] | tuple[NumberLiteral | Variable, Limit]) -> Limit:
        return Limit(parts[0], parts[1].count if len(parts) > 1 else None)

    def offset(self, parts: tuple[NumberLiteral | Variable]) -> Limit:
        return Limit(parts[0])

    def mutation(self, statements: tuple[Statement, ...]) -> MutationBody:
        return MutationBody(tuple(statements))

    def insert(self, parts: tuple[Name, tuple[Assignment, ...]]) -> Insert:
        return Insert(*parts)

    def update(self, parts: tuple[Name, tuple[Assignment, ...], Expression]) -> Update:
        return Update(*parts)

    def delete(self, parts: tuple[Name, Expression]) -> Delete:
        return Delete(*parts)

    def list(self, parts: tuple[Token | Expression, ...]) -> ListLiteral:
        bracket = parts[0]
        assert isinstance(bracket, Token)
        items = tuple(part for part in parts if not isinstance(part, Token))
        if len(items) > limits.QUERY_LIST_ITEMS_MAX:
            message = f"a list has {len(items)} items, more than {limits.QUERY_LIST_ITEMS_MAX}"
            self._report(QueryCode.LITERAL_TOO_LARGE, bracket, message, "give long lists as parameters")
        return ListLiteral(items, token_span(bracket))


def _flattened(operands: list[Expression], junction: Junction) -> tuple[Expression, ...]:
    """`a and (b and c)` is the same as `a and b and c`."""
    flat: list[Expression] = []
    for operand in operands:
        match operand:
            case Joined(inner, operands=parts) if inner is junction:
                flat.extend(parts)
            case _:
                flat.append(operand)
    return tuple(flat)


def _clauses(parts: list[Token | Clause]) -> tuple[Clause, ...]:
    return tuple(part for part in parts if not isinstance(part, Token))


def _keyword_span(parts: list[Token | Clause]) -> Span:
    return next(token_span(part) for part in parts if isinstance(part, Token))
