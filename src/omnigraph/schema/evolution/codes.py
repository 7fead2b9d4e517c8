"""The codes of rejected schema changes, what each means, and what to do instead.

The codes are stable: a code never changes its meaning, and a retired code is not used again. OG-DS: the change would
destroy data or identities. OG-MF: the change may fail, or its meaning is not clear.
"""

from __future__ import annotations

from enum import Enum


class EvolutionCode(Enum):
    """A code, its meaning, and what to do instead."""

    TYPE_CHANGED = (
        "OG-DS-101",
        "a property's type changes to one that cannot hold every value of the old type",
        "Add a property of the new type under another name, write its values, then drop the old one.",
    )
    ENUM_NARROWED = (
        "OG-DS-102",
        "an enum loses a value",
        "Keep the value. Or add a property with the smaller enum, write its values, then drop the old one.",
    )
    KEY_CHANGED = (
        "OG-DS-103",
        "a type's key changes, and with it the id of every row",
        "Add a type with the new key, export and load the rows into it, then drop the old one.",
    )
    ENDPOINTS_CHANGED = (
        "OG-DS-104",
        "the source or target of an edge changes to another node type",
        "Add an edge type between those nodes, export and load the edges into it, then drop the old one.",
    )
    KIND_CHANGED = (
        "OG-DS-105",
        "a node type becomes an edge type, or an edge type becomes a node type",
        "Drop the old type in one change of the schema, and add the new one in the next.",
    )

    REQUIRED_WITHOUT_DEFAULT = (
        "OG-MF-101",
        "a required property without a default is added to a type that has rows",
        "Add `@default(…)`, or make it nullable with `?`.",
    )
    TYPE_WIDENED = (
        "OG-MF-102",
        "a property's type changes to a wider one, which rewrites every value",
        "Add a property of the wider type under another name, write its values, then drop the old one.",
    )
    RENAME_TO_EXISTING = (
        "OG-MF-103",
        "a type or property is renamed to a name that already exists",
        "Drop the type or property that has the name in one change of the schema, and rename in the next.",
    )
    RENAME_UNKNOWN = (
        "OG-MF-104",
        "`@rename_from` names a type or property that does not exist",
        "Fix the old name, or remove the annotation to add a new type or property.",
    )
    EMBEDDING_CHANGED = (
        "OG-MF-105",
        "a vector's source or model changes while rows have vectors from the old source or model",
        "Add a vector property with the new `@embed`, fill it, then drop the old one.",
    )
    BLOB_WITH_DEFAULT = (
        "OG-MF-106",
        "a `Blob` becomes nullable or required while another property of the type is filled with a default",
        "Make the two changes one after the other.",
    )
    BLOB_WITH_HARD_DROP = (
        "OG-MF-107",
        "a hard drop of a property from a type with a `Blob`, whose contents cannot be written again",
        "Make it a soft drop. Or export the rows and load them into a type without the property.",
    )

    def __init__(self, code: str, meaning: str, advice: str) -> None:
        self.code = code
        self.meaning = meaning
        self.advice = advice
