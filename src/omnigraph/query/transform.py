"""Turns the tree of the parser into the syntax tree, and an error of the parser into a problem.

Input: a tree that is not too deep. Output: the queries. Reports only invalid escapes and literals that are too large. A
minus before a number becomes part of the number, `name=value` in a call a named argument; `date("…")`, `datetime("…")`,
`true`, `false` and `null` become literals. Imported late, because it needs lark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from lark import Token, Transformer, Tree, UnexpectedInput

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.parsing import (
    ESCAPES_HINT,
    TypePart,
    error_offset,
    expected_terminals,
    join_alternatives,
    lark_token_span,
    type_expression,
    unescape,
    unexpected_text,
    unexpected_token_span,
)
from omnigraph.lang.problems import ProblemList, QueryProblems
from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    Literal,
    Name,
    NamedArgument,
    NumberLiteral,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
    WordLiteral,
)
from omnigraph.query import syntax
from omnigraph.query.codes import QueryCode

_TERMINALS: Final = {
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
_EXPONENT: Final = re.compile(r"[eE]([+-]?)0*([0-9]*)$")
_HINTS: Final = {
    "==": "Write `=` for equality.",
    "<>": "Write `!=` for inequality.",
    "&&": "Write `and`.",
    "||": "Write `or`.",
    "->": "Write `$a edge $b`. The order of the variables is the direction.",
    "/*": "Close the comment with `*/`.",
}
_WORD_HINTS: Final = {
    "where": "Write conditions as clauses of the `match`, without `where`.",
    "like": "Write `contains` or `starts_with`.",
    "select": "Write `return { … }`.",
    "not": "Write `not ($x.p in [ … ])`.",
}
_BODY_KEYWORDS: Final = frozenset({"match", "return", "insert", "update", "delete"})


def report_syntax_error(error: UnexpectedInput, problems: ProblemList) -> int:
    """Add the problem, and return its offset in the text."""
    text = problems.text
    position = error_offset(error, text)
    token = _TOKEN.match(text, position)
    expected = sorted({_terminal_text(name) for name in expected_terminals(error)})
    hint = _hint(position, text, expected)
    details = f"unexpected {unexpected_text(token)}"
    if expected and not hint:
        details = f"expected {_either(expected)}, got {unexpected_text(token)}"
    message = f"{_query_prefix(position, text)}syntax error: {details}"
    problems.report(QueryCode.SYNTAX, unexpected_token_span(token, position, text), message, hint)
    return position


def _query_prefix(position: int, text: str) -> str:
    """Return the start of a message: the query at this position."""
    last: re.Match[str] | None = None
    for header in _HEADER.finditer(text, 0, position):
        last = header
    return f"query {last.group(1)}: " if last else ""


def _hint(position: int, text: str, expected: list[str]) -> str:
    """Return the hint for a common error, or nothing."""
    rest = text[position : position + 2]
    before = text[max(0, position - 1) : position + 1]
    if rest.startswith('"') and _is_unclosed_string(position, text):
        return 'End the string with `"` on the same line.'
    if rest[:1] in {"'", "‘", "“"}:
        return 'Write strings in double quotes: "…".'
    for pair in (rest, before):
        if pair in _HINTS:
            return _HINTS[pair]
    if rest[:1] == ";":
        return "Separate clauses with whitespace only."
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "Use only the letters A to Z and a to z, digits and `_` in names."
    word = _TOKEN.match(text, position)
    if word and word.group().lower() in _BODY_KEYWORDS and "`query`" in expected:
        return "Wrap it in a named query: `query name() { … }`."
    if word and word.group().lower() in _WORD_HINTS:
        return _WORD_HINTS[word.group().lower()]
    if "a variable" in expected and _follows_bare_variable(position, text):
        return "Write a filter that starts with a parameter in parentheses. Without them it is a traversal."
    return ""


def _is_unclosed_string(position: int, text: str) -> bool:
    line_end = text.find("\n", position)
    line = text[position + 1 : line_end if line_end >= 0 else len(text)]
    return '"' not in line.replace('\\"', "")


def _follows_bare_variable(position: int, text: str) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    return re.search(r"\$\w+\s+(?:contains|starts_with|in)\s*$", text[line_start:position]) is not None


def _terminal_text(name: str) -> str:
    """Return a terminal as a message shows it; a keyword is a terminal whose name starts with `_`."""
    return f"`{name[1:].lower()}`" if name.startswith("_") else _TERMINALS.get(name, name)


def _either(words: list[str]) -> str:
    if len(words) > _EXPECTED_MAX:
        return "an expression, an operator or the end of the expression"
    return join_alternatives(words)


def build_tree(tree: Tree[Token], problems: QueryProblems) -> tuple[syntax.Query, ...]:
    """Return the queries of a parsed text, in order."""
    return _QueryBuilder(problems).transform(tree)


def _node(kind: Callable[..., Any]) -> Callable[[Transformer[Token, Any], list[Any]], Any]:
    """Return the method of a rule whose parts are the arguments of a node, in order."""
    return lambda _, parts: kind(*parts)


def _tuple(_: Transformer[Token, Any], parts: list[Any]) -> tuple[Any, ...]:
    """Build the result of a rule whose parts are items of one kind."""
    return tuple(parts)


class _Expressions(Transformer[Token, tuple[syntax.Query, ...]]):
    """The rules of expressions, and the terminals."""

    access = _node(syntax.Access)

    def __init__(self, problems: QueryProblems) -> None:
        super().__init__()
        self._problems = problems

    def disjunction(self, operands: list[syntax.Expression]) -> syntax.Joined:
        return _join(syntax.Junction.OR, operands)

    def conjunction(self, operands: list[syntax.Expression]) -> syntax.Joined:
        return _join(syntax.Junction.AND, operands)

    def inversion(self, parts: tuple[Token, syntax.Expression]) -> syntax.Inversion:
        return syntax.Inversion(parts[1], lark_token_span(parts[0]))

    def comparison(self, parts: tuple[syntax.Expression, Token, syntax.Expression]) -> syntax.Comparison:
        left, operator, right = parts
        return syntax.Comparison(syntax.ComparisonOperator(str(operator)), left, right, lark_token_span(operator))

    def null_test(self, parts: list[syntax.Expression | Token]) -> syntax.NullTest:
        operand = parts[0]
        assert not isinstance(operand, Token)
        return syntax.NullTest(operand, negated=len(parts) > 1)

    def arithmetic(self, parts: tuple[syntax.Expression, Token, syntax.Expression]) -> syntax.Arithmetic:
        left, sign, right = parts
        return syntax.Arithmetic(syntax.Sign(str(sign)), left, right, lark_token_span(sign))

    def negative(self, parts: tuple[Token, syntax.Expression]) -> syntax.Expression:
        sign, operand = parts
        if isinstance(operand, NumberLiteral) and not operand.text.startswith("-"):
            return NumberLiteral(f"-{operand.text}", lark_token_span(sign))
        return syntax.Negative(operand, lark_token_span(sign))

    def word(self, parts: tuple[Name]) -> syntax.Expression:
        (name,) = parts
        match name.text:
            case "true" | "false":
                return syntax.BoolLiteral(name.text == "true", name.span)
            case "null":
                return syntax.NullLiteral(name.span)
            case text:
                return syntax.Word(text, name.span)

    def call(self, parts: list[Name | Token | syntax.Expression]) -> syntax.Call | TimeLiteral:
        name, *rest = parts
        assert isinstance(name, Name)
        match name.text, rest:
            case "date" | "datetime", [StringLiteral(time_text)]:
                return TimeLiteral(name.text == "datetime", time_text, name.span)
        distinct = any(isinstance(part, Token) for part in rest)
        arguments: list[syntax.Expression] = []
        named: list[syntax.CallArgument] = []
        for part in rest:
            match part:
                case syntax.Comparison(syntax.ComparisonOperator.EQ, syntax.Word(text, span), value):
                    named.append(syntax.CallArgument(Name(text, span), value))
                case Token() | Name():
                    pass
                case expression:
                    arguments.append(expression)
        return syntax.Call(name, tuple(arguments), tuple(named), distinct)

    def VARIABLE(self, token: Token) -> syntax.Variable:  # noqa: N802 - lark calls the method of a terminal by its name
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return syntax.Variable(str(token)[1:], lark_token_span(token))

    def NAME(self, token: Token) -> Name:  # noqa: N802
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return Name(str(token), lark_token_span(token))

    def ANNOTATION(self, token: Token) -> Name:  # noqa: N802
        self._check_length(token, limits.QUERY_NAME_LENGTH_MAX, "a name")
        return Name(str(token)[1:], lark_token_span(token))

    def WORD(self, token: Token) -> WordLiteral:  # noqa: N802
        return WordLiteral(str(token), lark_token_span(token))

    def NUMBER(self, token: Token) -> NumberLiteral:  # noqa: N802
        self._check_length(token, limits.QUERY_NUMBER_LENGTH_MAX, "a number")
        exponent = _EXPONENT.search(token)
        if exponent and (len(exponent[2]) > 9 or int(exponent[2] or "0") > limits.QUERY_NUMBER_EXPONENT_MAX):
            message = f"the exponent of a number is larger than {limits.QUERY_NUMBER_EXPONENT_MAX:,}"
            limit = ResourceLimit("query_number_exponent", limits.QUERY_NUMBER_EXPONENT_MAX, "digits")
            self._report_too_large(token, message, "", limit)
        return NumberLiteral(str(token), lark_token_span(token))

    def STRING(self, token: Token) -> StringLiteral:  # noqa: N802
        self._check_length(token, limits.QUERY_STRING_LENGTH_MAX, "a string")
        return StringLiteral(self._unescape(token), lark_token_span(token))

    def _check_length(self, token: Token, length_max: int, kind: str) -> None:
        if len(token) > length_max:
            message = f"{kind} is too long: expected at most {length_max:,} characters, got {len(token):,}"
            hint = "" if kind == "a name" else "Pass long values as parameters."
            limit = ResourceLimit(f"query_{kind.removeprefix('a ')}", length_max, "characters", len(token))
            self._report_too_large(token, message, hint, limit)

    def _unescape(self, token: Token) -> str:
        """Return the characters of a string; report an unknown escape and leave it unchanged."""
        inner = str(token)[1:-1]
        value = unescape(inner)
        if isinstance(value, str):
            return value
        prefix = _query_prefix(token.start_pos or 0, self._problems.text)
        span = value.span_in(lark_token_span(token))
        self._problems.report(QueryCode.STRING_ESCAPE, span, prefix + value.message, ESCAPES_HINT)
        return inner

    def _report_too_large(self, token: Token, message: str, hint: str, limit: ResourceLimit) -> None:
        prefix = _query_prefix(token.start_pos or 0, self._problems.text)
        self._problems.report(QueryCode.LITERAL_TOO_LARGE, lark_token_span(token), prefix + message, hint, limit)


class _QueryBuilder(_Expressions):
    """The rules of queries, clauses and statements."""

    start = type_parameters = match = properties = returned = ordered = _tuple
    parameter = _node(syntax.Parameter)
    property = _node(syntax.Assignment)
    binding = _node(syntax.Binding)
    filter = _node(syntax.Filter)
    projection = _node(syntax.Projection)
    limit = _node(syntax.Limit)
    insert = _node(syntax.Insert)
    update = _node(syntax.Update)
    delete = _node(syntax.Delete)

    def query(
        self, parts: list[Name | syntax.Parameter | Annotation | syntax.ReadBody | syntax.MutationBody]
    ) -> syntax.Query:
        name, body = parts[0], parts[-1]
        assert isinstance(name, Name)
        assert isinstance(body, syntax.ReadBody | syntax.MutationBody)
        return syntax.Query(
            name,
            tuple(part for part in parts if isinstance(part, syntax.Parameter)),
            tuple(part for part in parts if isinstance(part, Annotation)),
            body,
        )

    def plain_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=False)

    def list_type(self, parts: list[TypePart]) -> TypeExpression:
        return type_expression(parts, is_list=True)

    def annotation(self, parts: list[Name | Argument]) -> Annotation:
        name, *arguments = parts
        assert isinstance(name, Name)
        return Annotation(name, tuple(part for part in arguments if not isinstance(part, Name)))

    def named_literal(self, parts: tuple[WordLiteral, Literal]) -> NamedArgument:
        word, value = parts
        return NamedArgument(Name(word.text, word.span), value)

    def read(self, parts: list[Any]) -> syntax.ReadBody:
        clauses, projections, *rest = parts
        order = next((part for part in rest if isinstance(part, tuple)), None)
        limit = next((part for part in rest if isinstance(part, syntax.Limit)), None)
        return syntax.ReadBody(clauses, projections, order, limit)

    def mutation(self, statements: list[syntax.Statement]) -> syntax.MutationBody:
        return syntax.MutationBody(tuple(statements))

    def traversal(
        self, parts: list[syntax.Variable | Tree[syntax.Variable] | Name | Token | syntax.Bounds]
    ) -> syntax.Traversal:
        source, target = parts[0], parts[-1]
        assert isinstance(source, syntax.Variable)
        assert isinstance(target, syntax.Variable)
        edge = next(part for part in parts if isinstance(part, Name | Token))
        binding = next((part.children[0] for part in parts if isinstance(part, Tree)), None)
        assert binding is None or isinstance(binding, syntax.Variable)
        return syntax.Traversal(
            source,
            Name(str(edge).strip("<> \t"), lark_token_span(edge)) if isinstance(edge, Token) else edge,
            target,
            undirected=isinstance(edge, Token),
            bounds=next((part for part in parts if isinstance(part, syntax.Bounds)), None),
            binding=binding,
        )

    def edge_name(self, parts: tuple[Name | Token]) -> Name:
        (name,) = parts
        return name if isinstance(name, Name) else Name(str(name), lark_token_span(name))

    def bounds(self, parts: list[NumberLiteral]) -> syntax.Bounds:
        return syntax.Bounds(parts[0], parts[1] if len(parts) > 1 else None, parts[0].span)

    def not_block(self, parts: list[Any]) -> syntax.NotBlock:
        keyword, *clauses = parts
        return syntax.NotBlock(tuple(clauses), lark_token_span(keyword))

    def optional_block(self, parts: list[Any]) -> syntax.OptionalBlock:
        keyword, *clauses = parts
        return syntax.OptionalBlock(tuple(clauses), lark_token_span(keyword))

    def ordering(self, parts: tuple[syntax.Expression] | tuple[syntax.Expression, Token]) -> syntax.Ordering:
        return syntax.Ordering(parts[0], descending=str(parts[1]) == "desc" if len(parts) > 1 else None)

    def list(self, parts: list[Any]) -> syntax.ListLiteral:
        bracket, *items = parts
        if len(items) > limits.QUERY_LIST_ITEMS_MAX:
            message = f"a list is too long: expected at most {limits.QUERY_LIST_ITEMS_MAX:,} items, got {len(items):,}"
            limit = ResourceLimit("query_list", limits.QUERY_LIST_ITEMS_MAX, "items", len(items))
            self._report_too_large(bracket, message, "Pass long lists as parameters.", limit)
        return syntax.ListLiteral(tuple(items), lark_token_span(bracket))


def _join(junction: syntax.Junction, operands: list[syntax.Expression]) -> syntax.Joined:
    """Join operands, with those of inner joins of the same kind: `a and (b and c)` is `a and b and c`."""
    flat: list[syntax.Expression] = []
    for operand in operands:
        if isinstance(operand, syntax.Joined) and operand.junction is junction:
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return syntax.Joined(junction, tuple(flat))
