"""Every rule a row can break, with a stable code and what breaking it means in one line.

A code keeps its meaning for ever and a retired one is not used again; the documentation's table is made from this
enum. V0xx the line itself, V1xx the type of a value, V2xx the constraints on a value, V3xx identity, V4xx what rows
mean together. The rule's word (`required`, `key_conflict`) is its name in lower case.
"""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """A code and its meaning."""

    LINE_SYNTAX = ("V001", "the line is not JSON, or not a row of CSV")
    LINE_SHAPE = ("V002", "the line is JSON, but neither a node nor an edge")
    UNKNOWN_TYPE = ("V003", "the line names a node or edge type that the schema does not have")
    LINE_TOO_LONG = ("V004", "the line is longer than a line may be")
    NAME_TWICE = ("V005", "a name stands twice in one object of the line")

    REQUIRED = ("V101", "a property that is not nullable has no value")
    UNKNOWN_PROPERTY = ("V102", "the type has no property of this name")
    WRONG_TYPE = ("V103", "the value is of another kind than the property")
    NUMBER_SIZE = ("V104", "the whole number does not fit the property's type")
    NOT_FINITE = ("V105", "the number is infinite, not a number, or too large for the property's type")
    NOT_UNICODE = ("V106", "the text is not valid UTF-8")
    DATE = ("V107", "the text is not a day written as `YYYY-MM-DD`")
    DATETIME = (
        "V108",
        "the text is not an RFC 3339 datetime with an offset, or not in the years 0001 to 9999",
    )
    DATETIME_TOO_FINE = ("V109", "the datetime is finer than milliseconds")
    LIST_ITEM_NULL = ("V110", "an item of a list or vector is null")
    VECTOR_LENGTH = ("V111", "the vector has another length than the property")
    BLOB_ENCODING = ("V112", "the text after `base64:` is not base64")
    BLOB_URI = ("V113", "the text does not begin with `base64:`; a blob outside of the graph is not allowed")

    ENUM = ("V201", "the value is not one of the enum's")
    RANGE = ("V202", "the value is outside of its `@range`")
    CHECK = ("V203", "the whole of the value does not match the pattern of its `@check`")

    ID_MISMATCH = ("V301", "the id is given and is not the one that the key makes")
    DUPLICATE_ID = ("V302", "an earlier row of the input has the same id")
    KEY_CONFLICT = ("V303", "the graph has this id already")
    BLANK_ID = ("V304", "the id, or the key that makes it, is empty or nothing but spaces")

    DANGLING_END = ("V401", "an end of the edge is a node that is neither in the input nor in the graph")
    UNIQUE = ("V402", "another row, of the input or of the graph, has the same values of a `@unique`")
    CARDINALITY_MAX = ("V403", "a source would have more edges than `@card` allows")
    CARDINALITY_MIN = ("V404", "a source would have fewer edges than `@card` demands")

    def __init__(self, code: str, meaning: str) -> None:
        self.code = code
        self.meaning = meaning

    @property
    def word(self) -> str:
        """The rule as JSON names it: `key_conflict`."""
        return self.name.lower()
