"""The codes of the errors and warnings of a query text, each with its meaning in one line.

The codes are stable: a code keeps its meaning, and a removed code is not used again. The table in the documentation is
generated from these enums. Q0xx text, T1xx names, T2xx patterns, T3xx values and types, T4xx search, T5xx results, T6xx
mutations; L2xx are the warnings of `lint`.
"""

from __future__ import annotations

from omnigraph.lang.problems import Code


class QueryCode(Code):
    """The errors."""

    SYNTAX = ("Q000", "the text is not valid syntax")
    TEXT_TOO_LARGE = ("Q001", "the text is larger than the maximum size of a query file")
    NOT_UNICODE = ("Q002", "the text contains an unpaired surrogate, which UTF-8 cannot encode")
    STRING_ESCAPE = ("Q003", "a string contains an invalid escape")
    TOO_DEEP = ("Q004", "blocks or expressions are nested too deeply")
    LITERAL_TOO_LARGE = ("Q005", "a literal, list or name is longer than the maximum")
    TOO_MANY_CLAUSES = ("Q006", "a query has more clauses or statements than the maximum")

    UNKNOWN_TYPE = ("T101", "a type does not exist, or is of the other kind")
    UNKNOWN_PROPERTY = ("T102", "a type does not have the property")
    UNKNOWN_EDGE = ("T103", "an edge does not exist")
    UNKNOWN_VARIABLE = ("T104", "a name is neither a bound variable nor a parameter")
    UNKNOWN_FUNCTION = ("T105", "a function does not exist")
    UNKNOWN_WORD = ("T106", "an unquoted word is not a name that is defined here")
    QUERY_TWICE = ("T107", "two queries of a file have the same name")
    PARAMETER_TWICE = ("T108", "a parameter is declared more than once")
    PARAMETER_SHADOWED = ("T109", "a variable has the name of a parameter")
    VARIABLE_TWICE = ("T110", "a variable is bound to two different types")
    VARIABLE_INSIDE_NOT = ("T111", "a variable is used outside the `not { }` that binds it")
    PARAMETER_TYPE = ("T112", "a parameter has a type that does not exist")
    ANNOTATION = ("T113", "`@description` is repeated, or its argument is not a string")
    ANONYMOUS_USED = ("T114", "`$_` is used as a named variable")

    WRONG_DIRECTION = ("T201", "a traversal follows an edge against its direction")
    WRONG_ENDPOINT = ("T202", "a variable of a traversal has a type that is not an endpoint of the edge")
    UNDIRECTED_ENDS = ("T203", "an undirected traversal follows an edge between two types")
    BOUNDS_ZERO = ("T204", "the lower bound of a traversal is zero hops")
    BOUNDS_ORDER = ("T205", "the bounds of a traversal are not two integers in ascending order")
    BOUNDS_OPEN = ("T206", "a traversal has no upper bound, and no maximum is configured")
    BOUNDS_TOO_HIGH = ("T207", "a traversal has more hops than the maximum")
    EDGE_BINDING_HOPS = ("T208", "something other than the length of a path is used")
    EDGE_BINDING_TWICE = ("T209", "the variable of an edge is already bound")
    NOT_AN_ENTITY = ("T210", "a parameter or an edge is used where a node is required")
    EMPTY_BLOCK = ("T211", "a `match`, `not` or `optional` has no clauses")
    EDGE_ALTERNATIVES = (
        "T212",
        "the edges of a traversal are repeated, connect other types, or are bound to a variable",
    )

    COMPARISON = ("T301", "the two sides of a comparison have types that cannot be compared")
    NO_ORDER = ("T302", "`<`, `<=`, `>` or `>=` is used on values without an order")
    CONTAINS = ("T303", "`contains` has neither a list and an item nor two strings")
    STARTS_WITH = ("T304", "an operand of `starts_with` is not a string")
    IN_LIST = ("T305", "the right side of `in` is not a list")
    LITERAL = ("T306", "a literal is not a valid value of the required type")
    ARITHMETIC = ("T307", "an operand of arithmetic is neither a number nor a date with a duration")
    NOT_BOOL = ("T308", "a condition is not of type Bool")
    ARGUMENT_COUNT = ("T309", "a function has the wrong number of arguments")
    ARGUMENT_TYPE = ("T310", "a function has an argument of the wrong type")
    ENTITY_VALUE = ("T311", "an entity is used where a value is required")
    INLINE_VALUE = ("T312", "an inline value contains something other than literals, parameters and `now()`")
    NULL_IN_LIST = ("T313", "a list contains null")
    LIST_VALUE = ("T314", "a list is used where lists are not allowed, or its items differ in type")
    LIKE = ("T315", "`like` does not have a string and a pattern that is a literal or a parameter")
    ALTERNATIVE_TYPES = ("T316", "the values of `coalesce` or `case` have different types")

    SEARCH_PROPERTY = ("T401", "a text search is not on a `String` property")
    NEAREST_PROPERTY = ("T402", "`nearest` is not on a `Vector` property")
    NEAREST_TEXT = ("T403", "`nearest` has a string, and the property has no `@embed`")
    VECTOR_LENGTH = ("T404", "a vector does not have the length of the property")
    LIMIT_NEEDED = ("T405", "`nearest` or `rrf` is used without a limit")
    SCORE_PLACE = ("T406", "a score is used where scores are not allowed")
    RRF_ARGUMENT = ("T407", "`rrf` has an argument that is not `nearest` or `bm25`")
    SEARCH_NUMBER = ("T408", "`edits` or `k` is not an integer within its bounds")
    SEARCH_PLACE = ("T409", "a search predicate is used outside of a filter")
    SCORE_GROUPED = ("T410", "a score is used in a query with aggregates")

    AGGREGATE_PLACE = ("T501", "an aggregate is used where aggregates are not allowed")
    AGGREGATE_NESTED = ("T502", "an aggregate contains another aggregate")
    AGGREGATE_TYPE = ("T503", "an aggregate does not support the type of its argument")
    OUTPUT_TWICE = ("T504", "two output columns have the same name")
    NOT_GROUPED = ("T505", "`having` or `order` uses a value that is not a group key")
    NOT_RETURNABLE = ("T506", "a value of this type cannot be returned or grouped by")
    NOT_SORTABLE = ("T507", "`order` has a value without an order")
    LIMIT_VALUE = ("T508", "a limit or an offset is not an integer within its bounds")
    EMPTY_RETURN = ("T509", "`return`, `having` or `order` has no expressions")
    HAVING_WITHOUT_GROUPS = ("T510", "`having` is used in a query without aggregates")

    MISSING_PROPERTY = ("T601", "an insert does not set a required property")
    KEY_UPDATE = ("T602", "an update sets a property of the key")
    MIXED_DELETE = ("T603", "a query combines deletes with inserts or updates")
    MISSING_END = ("T604", "an insert of an edge does not set `from` or `to`")
    SYSTEM_PROPERTY = ("T605", "a mutation sets a system property")
    PROPERTY_TWICE = ("T606", "a property is set more than once")
    NULL_VALUE = ("T607", "a required property is set to a value that is or can be null")
    WHERE_VARIABLE = ("T608", "`where` uses a name that is not a property of the type")
    NOTHING_SET = ("T609", "an update sets no properties")


class LintCode(Code):
    """The warnings."""

    NEVER_UPDATED = ("L201", "no update sets a nullable property")
    HARD_CODED = ("L202", "a mutation contains a hard-coded value")
    UNUSED_PARAMETER = ("L203", "a parameter is never used")
    UNUSED_VARIABLE = ("L204", "a variable is never used")
    CROSS_JOIN = ("L205", "the clauses of a match are not connected")
    NULL_COMPARISON = ("L206", "a comparison with null is never true")
