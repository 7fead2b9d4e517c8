"""Which annotations mean something to us, and where they may stand. Any other annotation is metadata that is kept."""

from __future__ import annotations

from typing import Final

from omnigraph.schema.syntax import Annotation

PROPERTY_ANNOTATIONS: Final = frozenset(
    {"key", "unique", "index", "embed", "default", "description", "rename_from"}
)
NODE_ANNOTATIONS: Final = frozenset({"rename_from", "description"})
EDGE_ANNOTATIONS: Final = frozenset({"rename_from", "description", "card"})
INTERFACE_ANNOTATIONS: Final = frozenset({"description"})
CONSTRAINTS: Final = frozenset({"key", "unique", "index", "range", "check"})
EDGE_CONSTRAINTS: Final = frozenset({"key", "unique", "index"})
KNOWN_ANNOTATIONS: Final = PROPERTY_ANNOTATIONS | EDGE_ANNOTATIONS | CONSTRAINTS


def find_annotation(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    """The first annotation of this name."""
    return next((annotation for annotation in annotations if annotation.name.text == name), None)


def metadata_of(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """The annotations that are only kept."""
    return tuple(annotation for annotation in annotations if annotation.name.text not in KNOWN_ANNOTATIONS)
