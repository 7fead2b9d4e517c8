"""Every code a query text can be refused or warned with, and what it means in one line.

The codes are stable: a code keeps its meaning for ever and a retired one is not used again. The documentation's
table is made from these enums. Q0xx text, T1xx names, T2xx patterns, T3xx values and types, T4xx search, T5xx results,
T6xx mutations; L2xx are the warnings of `lint`.
"""

from __future__ import annotations

from enum import Enum


class QueryCode(Enum):
    """An error: a code and its meaning."""

    SYNTAX = ("Q000", "the text does not follow the grammar")
    TEXT_TOO_LARGE = ("Q001", "the text is larger than a query file may be")
    NOT_UNICODE = ("Q002", "the text has a lone surrogate, which no UTF-8 file can hold")
    STRING_ESCAPE = ("Q003", "a string has an escape that does not exist")
    TOO_DEEP = ("Q004", "blocks or expressions stand too deep inside each other")
    LITERAL_TOO_LARGE = ("Q005", "a literal, list or name is longer than it may be")
    TOO_MANY_CLAUSES = ("Q006", "a query has more clauses or statements than it may")

    UNKNOWN_TYPE = ("T101", "a type does not exist, or is of the other kind")
    UNKNOWN_PROPERTY = ("T102", "a type does not have the property")
    UNKNOWN_EDGE = ("T103", "an edge does not exist")
    UNKNOWN_VARIABLE = ("T104", "a name is neither a bound variable nor a parameter")
    UNKNOWN_FUNCTION = ("T105", "a function does not exist")
    UNKNOWN_WORD = ("T106", "a bare word stands where it means nothing")
    QUERY_TWICE = ("T107", "two queries of a file have the same name")
    PARAMETER_TWICE = ("T108", "a parameter is declared twice")
    PARAMETER_SHADOWED = ("T109", "a variable has the name of a parameter")
    VARIABLE_TWICE = ("T110", "a variable is bound twice, to different types")
    VARIABLE_INSIDE_NOT = ("T111", "a variable is used outside the `not { }` that binds it")
    PARAMETER_TYPE = ("T112", "a parameter has a type that does not exist")
    ANNOTATION = ("T113", "`@description` is given twice or without a string")
    ANONYMOUS_USED = ("T114", "`$_` is used as if it had a name")

    WRONG_DIRECTION = ("T201", "a traversal follows an edge against its direction")
    WRONG_ENDPOINT = ("T202", "a traversal has a variable whose type is not at that end of the edge")
    UNDIRECTED_ENDS = ("T203", "an undirected traversal follows an edge between two types")
    BOUNDS_ZERO = ("T204", "a traversal begins at zero hops")
    BOUNDS_ORDER = ("T205", "the bounds of a traversal are not two whole numbers in order")
    BOUNDS_OPEN = ("T206", "a traversal has no upper bound and no ceiling is configured")
    BOUNDS_TOO_HIGH = ("T207", "a traversal has more hops than are allowed")
    EDGE_BINDING_HOPS = ("T208", "an edge is bound over more than one hop")
    EDGE_BINDING_TWICE = ("T209", "the variable of an edge is already bound")
    NOT_AN_ENTITY = ("T210", "a parameter or an edge stands where a node is needed")
    EMPTY_BLOCK = ("T211", "a `match`, `not` or `optional` has no clauses")

    COMPARISON = ("T301", "a comparison has two sides that cannot be compared")
    NO_ORDER = ("T302", "`<`, `<=`, `>` or `>=` is used on values without an order")
    CONTAINS = ("T303", "`contains` has neither a list and an item nor two strings")
    STARTS_WITH = ("T304", "`starts_with` has a side that is not a string")
    IN_LIST = ("T305", "the right side of `in` is not a list")
    LITERAL = ("T306", "a literal is no value of the type that is needed")
    ARITHMETIC = ("T307", "arithmetic is done with something that is not a number")
    NOT_BOOL = ("T308", "a condition is not true or false")
    ARGUMENT_COUNT = ("T309", "a function has the wrong number of arguments")
    ARGUMENT_TYPE = ("T310", "a function has an argument of the wrong type")
    ENTITY_VALUE = ("T311", "a whole entity stands where a value is needed")
    INLINE_VALUE = ("T312", "an inline value is not made of literals, parameters and `now()`")
    NULL_IN_LIST = ("T313", "a list has an item that is null")
    LIST_VALUE = ("T314", "a list stands where lists mean nothing, or its items differ in type")

    SEARCH_PROPERTY = ("T401", "a text search is not on a `String` property")
    NEAREST_PROPERTY = ("T402", "`nearest` is not on a `Vector` property")
    NEAREST_TEXT = ("T403", "`nearest` has a string, and the property is not made by `@embed`")
    VECTOR_LENGTH = ("T404", "a vector has another length than the property")
    LIMIT_NEEDED = ("T405", "`nearest` or `rrf` is used without a limit")
    SCORE_PLACE = ("T406", "a score stands where scores mean nothing")
    RRF_ARGUMENT = ("T407", "`rrf` has an argument that is not `nearest` or `bm25`")
    SEARCH_NUMBER = ("T408", "`edits` or `k` is not a whole number within its bounds")
    SEARCH_PLACE = ("T409", "a search predicate stands outside of a filter")
    SCORE_GROUPED = ("T410", "a score is used in a query with aggregates")

    AGGREGATE_PLACE = ("T501", "an aggregate stands where aggregates mean nothing")
    AGGREGATE_NESTED = ("T502", "an aggregate has an aggregate inside")
    AGGREGATE_TYPE = ("T503", "an aggregate has an argument that it cannot work on")
    OUTPUT_TWICE = ("T504", "two output columns have the same name")
    NOT_GROUPED = ("T505", "`order` needs a value that is not a group key")
    NOT_RETURNABLE = ("T506", "a value of this type cannot be returned or grouped by")
    NOT_SORTABLE = ("T507", "`order` has a value without an order")
    LIMIT_VALUE = ("T508", "a limit or an offset is not a whole number within its bounds")
    EMPTY_RETURN = ("T509", "`return` or `order` has no expression")

    MISSING_PROPERTY = ("T601", "an insert lacks a required property")
    KEY_UPDATE = ("T602", "an update sets a property of the key")
    MIXED_DELETE = ("T603", "a query has deletes beside inserts or updates")
    MISSING_END = ("T604", "an insert of an edge lacks `from` or `to`")
    SYSTEM_PROPERTY = ("T605", "a property is set that the system sets")
    PROPERTY_TWICE = ("T606", "a property is given twice")
    NULL_VALUE = ("T607", "null is set, or could be, where a value is required")
    WHERE_VARIABLE = ("T608", "`where` uses something that is not the type's own property")
    NOTHING_SET = ("T609", "an update sets nothing")

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def meaning(self) -> str:
        return self.value[1]


class LintCode(Enum):
    """A warning: a code and its meaning."""

    NEVER_UPDATED = ("L201", "a nullable property that no update ever sets")
    HARD_CODED = ("L202", "a mutation has a hard-coded value")
    UNUSED_PARAMETER = ("L203", "a parameter is never used")
    UNUSED_VARIABLE = ("L204", "a variable is never used")
    CROSS_JOIN = ("L205", "a match has parts that nothing connects")
    NULL_COMPARISON = ("L206", "a comparison with null is never true")

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def meaning(self) -> str:
        return self.value[1]
