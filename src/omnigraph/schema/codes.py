"""The codes of the errors of a schema text, each with its meaning in one line.

The codes are stable: a code never changes its meaning, and a retired code is not used again. The table in the
documentation is checked against this enum. S0xx text, S1xx names, S2xx types, S3xx annotations and constraints, S4xx
interfaces, S5xx edges.
"""

from __future__ import annotations

from omnigraph.lang.problems import Code


class SchemaCode(Code):
    """A code and its meaning."""

    SYNTAX = ("S001", "the text is not valid syntax")
    TEXT_TOO_LARGE = ("S002", "the text is larger than the maximum size of a schema")
    NOT_UNICODE = ("S003", "the text contains an unpaired surrogate, which UTF-8 cannot encode")
    STRING_ESCAPE = ("S004", "a string contains an invalid escape")
    TOO_MUCH_INHERITED = ("S005", "interfaces add more properties to the nodes than a schema can have")

    TYPE_NAME_CASE = ("S101", "a type's name does not start with an upper-case letter")
    PROPERTY_NAME_CASE = ("S102", "a property's name does not start with a lower-case letter or `_`")
    DUPLICATE_TYPE = ("S103", "two declarations have the same name")
    EDGE_FIRST_LETTER = ("S104", "two edges differ only in the case of their first letter")
    DUPLICATE_PROPERTY = ("S105", "a declaration has two properties with the same name")
    RESERVED_NAME = ("S106", "a property has the name of a system column")
    NAME_TOO_LONG = ("S107", "a name is longer than the maximum length")
    RENAME_SOURCE_EXISTS = ("S108", "`@rename_from` names a type or property that is still declared")
    DUPLICATE_RENAME = ("S109", "two declarations are renamed from the same name")

    UNKNOWN_TYPE = ("S201", "a property has a type that does not exist")
    NO_PARAMETERS = ("S202", "a type without parameters has parameters")
    VECTOR_SIZE = ("S203", "a `Vector` has no size or an invalid size")
    LIST_ITEM = ("S204", "a list has items of a type that is not valid in lists")
    LIST_ITEM_NULLABLE = ("S205", "a list has nullable items")
    ENUM_EMPTY = ("S206", "an `enum` has no values")
    ENUM_VALUE = ("S207", "an `enum` has a value that is not a word")
    DUPLICATE_ENUM_VALUE = ("S208", "an `enum` has a duplicate value")

    MISPLACED_ANNOTATION = ("S301", "an annotation in a body follows no property")
    DUPLICATE_ANNOTATION = ("S302", "a duplicate annotation")
    ANNOTATION_POSITION = ("S303", "an annotation is used where it has no meaning")
    ARGUMENTS = ("S304", "an annotation has invalid arguments")
    KEY_NULLABLE = ("S305", "a key has a nullable property")
    KEY_TYPE = ("S306", "a key has a property whose type cannot be part of an id")
    SEVERAL_KEYS = ("S307", "a type has more than one key")
    UNKNOWN_PROPERTY = ("S308", "a constraint names a property that does not exist")
    DUPLICATE_COLUMN = ("S309", "a constraint names a property more than once")
    DUPLICATE_CONSTRAINT = ("S310", "a duplicate constraint")
    UNIQUE_TYPE = ("S311", "`@unique` has a property whose values cannot be compared")
    INDEX_TYPE = ("S312", "`@index` has a property whose type cannot be indexed")
    INDEX_SYSTEM = ("S313", "`@index` names a system column, which is always indexed")
    RANGE_TYPE = ("S314", "`@range` has a property whose type has no order")
    RANGE_EMPTY = ("S315", "a range has no bound, or its bounds leave no value")
    RANGE_BOUND = ("S316", "a bound of a range is not a value of the property's type")
    CHECK_TYPE = ("S317", "`@check` has a property that is not a `String`")
    CHECK_PATTERN = ("S318", "a pattern is not a regular expression of the allowed dialect")
    DEFAULT_VALUE = ("S319", "a default is not a value of the property's type")
    DEFAULT_TYPE = ("S320", "a default for a type that cannot have a default")
    DEFAULT_VIOLATES_RULE = ("S321", "a default violates a `@range` or `@check` of its own type")
    EMBED_TYPE = ("S322", "`@embed` is on a property that is not a `Vector`")
    EMBED_SOURCE = ("S323", "`@embed` names a source that is missing or not a `String`")
    INDEX_OPTION = (
        "S324",
        "an option of `@index` is unknown, a duplicate or different, has an invalid value, or excludes another",
    )
    INDEX_OPTION_TYPE = ("S325", "`@index` has options on a property that is not a `String`")

    UNKNOWN_INTERFACE = ("S401", "a node implements an interface that does not exist")
    NOT_AN_INTERFACE = ("S402", "a node implements a type that is not an interface")
    DUPLICATE_INTERFACE = ("S403", "a node implements an interface more than once")
    INTERFACE_CONFLICT = ("S404", "a property differs from its declaration in an interface")
    ONLY_NODES_IMPLEMENT = ("S405", "an interface or an edge implements an interface")

    UNKNOWN_ENDPOINT = ("S501", "an endpoint of an edge does not exist")
    ENDPOINT_NOT_NODE = ("S502", "an endpoint of an edge is not a node")
    CARDINALITY = ("S503", "`@card` is not a range of counts")
    EDGE_CONSTRAINT = ("S504", "an edge has a constraint that only nodes can have")
    EDGE_KEY = ("S505", "the key of an edge does not start with `src, dst`")
