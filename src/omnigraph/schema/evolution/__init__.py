"""From an accepted catalog and a desired one to ordered steps, and from steps to the next catalog. Pure.

`find_steps` compares, `next_catalog` follows the steps, `text_of` says a step to people, and `merge_catalogs` brings
together what two branches did. Identities are carried over: a type keeps its id and incarnation and a property its id
through renames, and nothing ever gets an id a second time.
"""

from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.cost import Cost, cost_of
from omnigraph.schema.evolution.counters import raise_counters
from omnigraph.schema.evolution.difference import Evolution, find_steps, find_steps_by_id
from omnigraph.schema.evolution.follow import next_catalog
from omnigraph.schema.evolution.merging import Diverged, merge_catalogs
from omnigraph.schema.evolution.property_difference import null_filled
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddIndex,
    AddProperty,
    AddType,
    CardRule,
    Constraint,
    DropConstraint,
    DropIndex,
    DropProperty,
    DropType,
    ExtendEnum,
    Notes,
    RelaxNullability,
    RenameProperty,
    RenameType,
    RequiredRule,
    Step,
    UniqueRule,
    Unsupported,
    UpdateInterfaces,
    UpdateMetadata,
    UpdateText,
)
from omnigraph.schema.evolution.texts import constraint_text, kind_of, text_of

__all__ = [
    "AddConstraint",
    "AddIndex",
    "AddProperty",
    "AddType",
    "CardRule",
    "Constraint",
    "Cost",
    "Diverged",
    "DropConstraint",
    "DropIndex",
    "DropProperty",
    "DropType",
    "Evolution",
    "EvolutionCode",
    "ExtendEnum",
    "Notes",
    "RelaxNullability",
    "RenameProperty",
    "RenameType",
    "RequiredRule",
    "Step",
    "UniqueRule",
    "Unsupported",
    "UpdateInterfaces",
    "UpdateMetadata",
    "UpdateText",
    "constraint_text",
    "cost_of",
    "find_steps",
    "find_steps_by_id",
    "kind_of",
    "merge_catalogs",
    "next_catalog",
    "null_filled",
    "raise_counters",
    "text_of",
]
