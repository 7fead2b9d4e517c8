"""Conditions over the columns of a dataset, as the SQL that Lance reads. Values only ever become quoted literals."""

from __future__ import annotations

from collections.abc import Iterable


def column_text(name: str) -> str:
    """A column's name, quoted so that its case counts."""
    return f"`{name}`"


def text_literal(value: str) -> str:
    """A text, quoted."""
    return "'" + value.replace("'", "''") + "'"


def any_of(column: str, texts: Iterable[object]) -> str:
    """That a column is one of these texts; without any it never is."""
    listed = ", ".join(text_literal(str(text)) for text in texts)
    return f"{column_text(column)} IN ({listed})" if listed else "false"
