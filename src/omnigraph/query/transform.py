"""Turns the tree of the parser into the syntax tree, and an error of the parser into a problem.

Input: a tree that is not too deep. Output: the queries. Reports only invalid escapes and literals that are too large. A
minus before a number becomes part of the number, `name=value` in a call a named argument; `date("…")`, `datetime("…")`,
`true`, `false` and `null` become literals. Imported late, because it needs lark.
"""

from __future__ import annotations

import re
from typing import Any, Final

from lark import Token, Tree

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.builder import TreeBuilder, node_rule, token_span, tuple_rule
from omnigraph.lang.parsing import InvalidSyntax, declaration_at, join_alternatives
from omnigraph.lang.problems import ProblemList, QueryProblems
from omnigraph.lang.syntax import Annotation, Name, NumberLiteral, Span, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.query.codes import QueryCode

HEADER: Final = re.compile(r"^[ \t]*(query)[ \t]+([A-Za-z_][A-Za-z0-9_]{0,127})", re.MULTILINE)
_EXPECTED_MAX: Final = 8
_CONTEXT_LENGTH: Final = 200
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_EXPONENT: Final = re.compile(r"[eE]([+-]?)0*([0-9]*)$")
_HINTS: Final = {
    "==": "Write `=` for equality.",
    "<>": "Write `!=` for inequality.",
    "&&": "Write `and`.",
    "||": "Write `or`.",
    "->": "Write `$a edge $b`. The order of the variables is the direction.",
    "[:": "Write `$a edge $b`, or `$a $e:edge $b` to bind the edge.",
    "/*": "Close the comment with `*/`.",
}
_WORD_HINTS: Final = {
    "where": "Write conditions as clauses of the `match`, without `where`.",
    "select": "Write `return { … }`.",
    "by": "Write `order { $x.name, n desc }`. The group keys are the expressions of `return` without aggregates.",
    "group": "Remove it. The group keys are the expressions of `return` without aggregates.",
    "skip": "Write `limit n offset m`.",
    "not": "Write `not ($x.p = …)`.",
}
_CONTEXT_HINTS: Final = (
    (r"\bis\s+not\s+\Z", r"(?:contains|starts_with|like|between|in)\b", 'Remove `is`, as in `$x.name not like "A%"`.'),
    (r"\bcase\b[^{}]*\Z", r"when\b", "Write `case when $x.p = 1 then … else … end`."),
    (r"\b(?:limit|offset)\s*\Z", r"-", "Write a number of 0 or more, or remove the limit to return all rows."),
    (r"\breturn\s*\{\s*\Z", r"\*", "Write a variable, as in `return { $x }`, which is all its properties."),
    (r"\$\w+\.\Z", r"\*", "Write the variable alone, as in `return { $x }`, which is all its properties."),
    (r"\b(?:return|having|order)\s*\Z", r"\{", "Close the block before it with `}`."),
)
"""Patterns of the text before an error and at it, and the hint."""
_LENGTHS: Final = {
    "NUMBER": ("a number", limits.QUERY_NUMBER_LENGTH_MAX),
    "STRING": ("a string", limits.QUERY_STRING_LENGTH_MAX),
}
_BODY_KEYWORDS: Final = frozenset({"match", "return", "insert", "update", "delete"})


def report_syntax_error(invalid: InvalidSyntax, problems: ProblemList) -> None:
    """Report the problem of a syntax error."""
    hint = _hint(invalid.offset, problems.text, invalid.expected)
    details = f"unexpected {invalid.shown}"
    if invalid.expected and not hint:
        is_long = len(invalid.expected) > _EXPECTED_MAX
        anything = "an expression, an operator or the end of the expression"
        details = f"expected {anything if is_long else join_alternatives(invalid.expected)}, got {invalid.shown}"
    problems.report(QueryCode.SYNTAX, invalid.span, f"{invalid.declaration}syntax error: {details}", hint)


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
    if rest[:1] == "#":
        return "Write comments as `// …` or `/* … */`."
    if rest[:1] == "%":
        return "The operators of arithmetic are `+`, `-`, `*` and `/`. A query cannot compute the remainder."
    if rest[:1] == ";":
        return "Separate clauses with whitespace only."
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "Use only the letters A to Z and a to z, digits and `_` in names."
    match = _WORD.match(text, position)
    word = match.group().lower() if match else ""
    if word in _BODY_KEYWORDS and "`query`" in expected:
        return "Wrap it in a named query: `query name() { … }`."
    if word in {"insert", "update", "delete"} and expected == ["`}`"]:
        return "Write two queries. A query with a `match` has one `update` or `delete`."
    if expected == ["a variable"] and re.search(r"\b(?:update|delete)\s+$", text[:position]):
        return "Name a variable that the `match` binds: `delete $x`, `update $x set { … }`."
    return _context_hint(position, text, expected) or _WORD_HINTS.get(word, "")


def _context_hint(position: int, text: str, expected: list[str]) -> str:
    """Return the hint for an error that the text before it explains, or nothing."""
    if "`and`" in expected and "`or`" not in expected:
        return "Write `between a and b`."
    before = text[max(0, position - _CONTEXT_LENGTH) : position]
    for before_pattern, pattern, hint in _CONTEXT_HINTS:
        if re.match(pattern, text[position : position + _CONTEXT_LENGTH]) and re.search(before_pattern, before):
            return hint
    if "a variable" in expected and _follows_bare_variable(position, text):
        return "Write a filter that starts with a parameter in parentheses. Without them it is a traversal."
    return ""


def _is_unclosed_string(position: int, text: str) -> bool:
    line_end = text.find("\n", position)
    line = text[position + 1 : line_end if line_end >= 0 else len(text)]
    return '"' not in line.replace('\\"', "")


def _follows_bare_variable(position: int, text: str) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    return re.search(r"\$\w+\s+(?:contains|starts_with|like|between|in)\s*$", text[line_start:position]) is not None


def build_tree(tree: Tree[Token], problems: QueryProblems) -> tuple[syntax.Query, ...]:
    """Return the queries of a parsed text, in order."""
    return _QueryBuilder(problems).transform(tree)


class _QueryBuilder(TreeBuilder[tuple[syntax.Query, ...]]):
    """The rules and terminals that only queries have."""

    header_pattern = HEADER
    escape_code = QueryCode.STRING_ESCAPE
    start = match = properties = returned = tuple_rule
    access = node_rule(syntax.Access)
    parameter = node_rule(syntax.Parameter)
    property = node_rule(syntax.Assignment)
    binding = node_rule(syntax.Binding)
    filter = node_rule(syntax.Filter)
    branch = node_rule(syntax.CaseBranch)
    projection = node_rule(syntax.Projection)
    limit = node_rule(syntax.Limit)
    insert = node_rule(syntax.Insert)
    update = node_rule(syntax.Update)
    delete = node_rule(syntax.Delete)
    matched_update = node_rule(syntax.MatchedUpdate)
    matched_delete = node_rule(syntax.MatchedDelete)

    def disjunction(self, operands: list[syntax.Expression]) -> syntax.Joined:
        return _join(syntax.Junction.OR, operands)

    def conjunction(self, operands: list[syntax.Expression]) -> syntax.Joined:
        return _join(syntax.Junction.AND, operands)

    def inversion(self, parts: tuple[Token, syntax.Expression]) -> syntax.Inversion:
        return syntax.Inversion(parts[1], token_span(parts[0]))

    def comparison(self, parts: list[Any]) -> syntax.Expression:
        left, *negation, operator, right = parts
        condition = syntax.Comparison(syntax.ComparisonOperator(str(operator)), left, right, token_span(operator))
        return _negate(condition, negation)

    def between(self, parts: list[Any]) -> syntax.Expression:
        operand, *negation, keyword, low, high = parts
        return _negate(syntax.Between(operand, low, high, token_span(keyword)), negation)

    def case(self, parts: list[Any]) -> syntax.Case:
        keyword, *rest = parts
        branches = tuple(part for part in rest if isinstance(part, syntax.CaseBranch))
        otherwise = rest[-1] if len(rest) > len(branches) else None
        return syntax.Case(branches, otherwise, token_span(keyword))

    def null_test(self, parts: list[syntax.Expression | Token]) -> syntax.NullTest:
        operand = parts[0]
        assert not isinstance(operand, Token)
        return syntax.NullTest(operand, negated=len(parts) > 1)

    def arithmetic(self, parts: tuple[syntax.Expression, Token, syntax.Expression]) -> syntax.Arithmetic:
        left, sign, right = parts
        return syntax.Arithmetic(syntax.Sign(str(sign)), left, right, token_span(sign))

    def negative(self, parts: tuple[Token, syntax.Expression]) -> syntax.Expression:
        sign, operand = parts
        if isinstance(operand, NumberLiteral) and not operand.text.startswith("-"):
            return NumberLiteral(f"-{operand.text}", token_span(sign))
        return syntax.Negative(operand, token_span(sign))

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
        markers = {part.type for part in rest if isinstance(part, Token)}
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
        return syntax.Call(name, tuple(arguments), tuple(named), "DISTINCT" in markers, "STAR" in markers)

    def VARIABLE(self, token: Token) -> syntax.Variable:  # noqa: N802 - lark calls the method that is named like the terminal
        self.check_token(token)
        return syntax.Variable(str(token)[1:], token_span(token))

    def check_token(self, token: Token) -> None:
        """Report a token that is too long, and a number with a huge exponent."""
        kind, length_max = _LENGTHS.get(token.type, ("a name", limits.QUERY_NAME_LENGTH_MAX))
        if len(token) > length_max:
            message = f"{kind} is too long: expected at most {length_max:,} characters, got {len(token):,}"
            hint = "" if kind == "a name" else "Pass long values as parameters."
            limit = ResourceLimit(f"query_{kind.removeprefix('a ')}", length_max, "characters", len(token))
            self._report_limit(token, message, hint, limit)
        exponent = _EXPONENT.search(token) if token.type == "NUMBER" else None
        if exponent and (len(exponent[2]) > 9 or int(exponent[2] or "0") > limits.QUERY_NUMBER_EXPONENT_MAX):
            message = f"the exponent of a number is larger than {limits.QUERY_NUMBER_EXPONENT_MAX:,}"
            limit = ResourceLimit("query_number_exponent", limits.QUERY_NUMBER_EXPONENT_MAX, "digits")
            self._report_limit(token, message, "", limit)

    def _report_limit(self, token: Token, message: str, hint: str, limit: ResourceLimit) -> None:
        where = declaration_at(token.start_pos or 0, self.header_pattern, self._problems.text)
        self._problems.report(QueryCode.LITERAL_TOO_LARGE, token_span(token), where + message, hint, limit)

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

    def read(self, parts: list[Any]) -> syntax.ReadBody:
        clauses, projections, *rest = parts
        limit = next((part for part in rest if isinstance(part, syntax.Limit)), None)
        blocks: dict[str, Any] = {part.data: tuple(part.children) for part in rest if isinstance(part, Tree)}
        return syntax.ReadBody(clauses, projections, blocks.get("ordered"), limit, blocks.get("having"))

    def mutation(self, statements: list[syntax.Statement]) -> syntax.MutationBody:
        return syntax.MutationBody(tuple(statements))

    def traversal(
        self, parts: list[syntax.Variable | Tree[syntax.Variable] | Name | Token | syntax.Bounds]
    ) -> syntax.Traversal:
        source, target = parts[0], parts[-1]
        assert isinstance(source, syntax.Variable)
        assert isinstance(target, syntax.Variable)
        edges = next(part for part in parts if isinstance(part, Name | Token))
        edge, *more = _edge_names(edges) if isinstance(edges, Token) else [edges]
        binding = next((part.children[0] for part in parts if isinstance(part, Tree)), None)
        assert binding is None or isinstance(binding, syntax.Variable)
        return syntax.Traversal(
            source,
            edge,
            target,
            undirected=isinstance(edges, Token) and edges.type == "UNDIRECTED",
            bounds=next((part for part in parts if isinstance(part, syntax.Bounds)), None),
            binding=binding,
            more=tuple(more),
        )

    def edge_name(self, parts: tuple[Name | Token]) -> Name:
        (name,) = parts
        return name if isinstance(name, Name) else Name(str(name), token_span(name))

    def bounds(self, parts: list[NumberLiteral]) -> syntax.Bounds:
        return syntax.Bounds(parts[0], parts[1] if len(parts) > 1 else None, parts[0].span)

    def not_block(self, parts: list[Any]) -> syntax.NotBlock:
        keyword, *clauses = parts
        return syntax.NotBlock(tuple(clauses), token_span(keyword))

    def optional_block(self, parts: list[Any]) -> syntax.OptionalBlock:
        keyword, *clauses = parts
        return syntax.OptionalBlock(tuple(clauses), token_span(keyword))

    def ordering(self, parts: tuple[syntax.Expression] | tuple[syntax.Expression, Token]) -> syntax.Ordering:
        return syntax.Ordering(parts[0], descending=str(parts[1]) == "desc" if len(parts) > 1 else None)

    def list(self, parts: list[Any]) -> syntax.ListLiteral:
        bracket, *items = parts
        if len(items) > limits.QUERY_LIST_ITEMS_MAX:
            message = f"a list is too long: expected at most {limits.QUERY_LIST_ITEMS_MAX:,} items, got {len(items):,}"
            limit = ResourceLimit("query_list", limits.QUERY_LIST_ITEMS_MAX, "items", len(items))
            self._report_limit(bracket, message, "Pass long lists as parameters.", limit)
        return syntax.ListLiteral(tuple(items), token_span(bracket))


def _edge_names(token: Token) -> list[Name]:
    """Return the edges of `<a|b>` and `(a|b)`, which are on one line; a single edge has the position of the token."""
    span = token_span(token)
    words = list(_WORD.finditer(token))
    if len(words) == 1:
        return [Name(words[0].group(), span)]
    return [Name(word.group(), Span(span.line, span.column + word.start(), len(word.group()))) for word in words]


def _negate(condition: syntax.Expression, negation: list[Token]) -> syntax.Expression:
    """Return `not (a like b)` for `a not like b`."""
    return syntax.Inversion(condition, token_span(negation[0])) if negation else condition


def _join(junction: syntax.Junction, operands: list[syntax.Expression]) -> syntax.Joined:
    """Join operands, with those of inner joins of the same kind: `a and (b and c)` is `a and b and c`."""
    flat: list[syntax.Expression] = []
    for operand in operands:
        if isinstance(operand, syntax.Joined) and operand.junction is junction:
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return syntax.Joined(junction, tuple(flat))
