"""The validation rules over Arrow batches, for loads, mutations and merges alike. No I/O.

The way through this room: a reader makes a `RawBatch`, asking its parser for `raw_schema`; `check_batch` gives it the
types of the schema, checks every value and makes ids; rows that have their types already go to `row_breaches`;
`check_change` checks a whole change against the rules over sets with a `GraphLookup`, and the functions of `set_rules`
with `bucket_of` do the same piece by piece for what is too large. Everything wrong is a `Breach`, columns of row
numbers and values; `ViolationReport` counts them and keeps the first, and merges over tasks.
"""

from omnigraph.integrity.breaches import NO_ROW, Breach, Places
from omnigraph.integrity.canonical_text import array_text, canonical_text, key_text
from omnigraph.integrity.check_batch import CheckedBatch, check_batch
from omnigraph.integrity.check_change import ChangeMode, TypeChange, check_change
from omnigraph.integrity.convert import convert
from omnigraph.integrity.converted import Converted, Mistake
from omnigraph.integrity.identity import derived_ids, row_ids
from omnigraph.integrity.lookup import EmptyGraph, GraphLookup
from omnigraph.integrity.raw import Cells, RawBatch, RawColumn, raw_schema
from omnigraph.integrity.report import (
    TaskFindings,
    Violation,
    ViolationReport,
    gather_findings,
    lines_before,
    merge_reports,
    violations_of,
)
from omnigraph.integrity.row_rules import row_breaches, value_breaches
from omnigraph.integrity.rules import Rule
from omnigraph.integrity.set_rules import (
    SourceCounts,
    cardinality_breaches,
    changed_sources,
    dangling_ends,
    duplicate_ids,
    repeated_keys,
    repeated_rows,
    taken_ids,
    taken_keys,
    unique_keys,
)
from omnigraph.integrity.text_hash import bucket_of, hash_texts
from omnigraph.integrity.ulids import new_ulids

__all__ = [
    "NO_ROW",
    "Breach",
    "Cells",
    "ChangeMode",
    "CheckedBatch",
    "Converted",
    "EmptyGraph",
    "GraphLookup",
    "Mistake",
    "Places",
    "RawBatch",
    "RawColumn",
    "Rule",
    "SourceCounts",
    "TaskFindings",
    "TypeChange",
    "Violation",
    "ViolationReport",
    "array_text",
    "bucket_of",
    "canonical_text",
    "cardinality_breaches",
    "changed_sources",
    "check_batch",
    "check_change",
    "convert",
    "dangling_ends",
    "derived_ids",
    "duplicate_ids",
    "gather_findings",
    "hash_texts",
    "key_text",
    "lines_before",
    "merge_reports",
    "new_ulids",
    "raw_schema",
    "repeated_keys",
    "repeated_rows",
    "row_breaches",
    "row_ids",
    "taken_ids",
    "taken_keys",
    "unique_keys",
    "value_breaches",
    "violations_of",
]
