"""Every rejected change, from two texts; a rejected change is never planned as a step."""

from __future__ import annotations

import pytest

from omnigraph.schema.evolution.apply import next_catalog
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.diff import find_steps
from tests.schema.evolution.populated import BASE, COMPANY, KNOWS, PERSON, populated
from tests.schema.evolution.schema_pairs import without_ids
from tests.schema.incarnations import catalog_of

REJECTED = {
    "another type": ("age: I32?", "age: String?", EvolutionCode.TYPE_CHANGED, "I32 would become String"),
    "a smaller enum": (
        "enum(glad, sad)",
        "enum(glad)",
        EvolutionCode.ENUM_NARROWED,
        "enum(glad, sad) would become enum(glad)",
    ),
    "another key": (
        PERSON,
        PERSON.replace("@key", "").replace("name: String", "name: String @key(slug, name)"),
        EvolutionCode.KEY_CHANGED,
        "the key (slug) would become (slug, name)",
    ),
    "no key": (
        "node Company { name: String @key",
        "node Company { name: String",
        EvolutionCode.KEY_CHANGED,
        "the key (name) would become (no key)",
    ),
    "other endpoints": (
        "Knows: Person -> Person",
        "Knows: Person -> Company",
        EvolutionCode.ENDPOINTS_CHANGED,
        "its target is another node type than before",
    ),
    "another kind": (
        COMPANY,
        "edge Company: Person -> Person\n",
        EvolutionCode.KIND_CHANGED,
        "node:Company would become edge:Company",
    ),
    "required without default": (
        "age: I32?",
        "age: I32?  city: String",
        EvolutionCode.REQUIRED_WITHOUT_DEFAULT,
        "the type has 3 rows",
    ),
    "a wider type": ("age: I32?", "age: I64?", EvolutionCode.TYPE_WIDENED, "I32 would become I64"),
    "an enum that becomes a String": ("mood: enum(glad, sad)", "mood: String", EvolutionCode.TYPE_WIDENED, ""),
    "a property renamed to an existing name": (
        "age: I32?  mood: enum(glad, sad)  name: String }",
        "mood: enum(glad, sad)  name: String @rename_from(age) }",
        EvolutionCode.RENAME_TO_EXISTING,
        "age would become name, which already exists",
    ),
    "a type renamed to an existing name": (
        PERSON + COMPANY + KNOWS,
        "node Company @rename_from(Person) { name: String @key }\n",
        EvolutionCode.RENAME_TO_EXISTING,
        "node:Person would become node:Company, which already exists",
    ),
    "a property renamed from an unknown name": (
        "age: I32?",
        "years: I32? @rename_from(ages)",
        EvolutionCode.RENAME_UNKNOWN,
        "property ages does not exist",
    ),
    "a type renamed from an unknown name": (
        COMPANY,
        COMPANY + "node City @rename_from(Town) { name: String @key }\n",
        EvolutionCode.RENAME_UNKNOWN,
        "node type Town does not exist",
    ),
}


@pytest.mark.parametrize(("old", "new", "code", "detail"), REJECTED.values(), ids=REJECTED.keys())
def test_rejected_change(old: str, new: str, code: EvolutionCode, detail: str) -> None:
    assert BASE.count(old) == 1
    accepted = catalog_of(BASE)
    evolution = find_steps(accepted, catalog_of(BASE.replace(old, new)), populated(accepted))
    assert [change.code for change in evolution.unsupported] == [code]
    assert detail in evolution.unsupported[0].detail


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("age: I32?", "age: I32?  city: String @range(size, 0..9) @unique(city, size)  size: I32"),
        ("age: I32?", "years: I32? @rename_from(ages)  age: I32?"),
        (
            "age: I32?  mood: enum(glad, sad)  name: String }",
            "mood: enum(glad, sad)  name: String? @rename_from(age) }",
        ),
        ("age: I32?", 'age: String @index @description("words")'),
    ],
    ids=["no default", "renamed from an unknown name", "renamed to an existing name", "another type"],
)
def test_a_rejected_change_is_not_a_step(old: str, new: str) -> None:
    accepted = catalog_of(BASE)
    evolution = find_steps(accepted, catalog_of(BASE.replace(old, new)), populated(accepted))
    assert evolution.unsupported
    assert evolution.steps == ()


def test_every_code_is_tested() -> None:
    tested = {code for _, _, code, _ in REJECTED.values()}
    others = {EvolutionCode.EMBEDDING_CHANGED, EvolutionCode.BLOB_WITH_DEFAULT, EvolutionCode.BLOB_WITH_HARD_DROP}
    assert tested | others == set(EvolutionCode)
    assert len({code.code for code in EvolutionCode}) == len(EvolutionCode)


def test_another_model_for_existing_vectors_is_rejected() -> None:
    def text(model: str) -> str:
        return f'node N {{ bio: String  v: Vector(8)? @embed("bio", model="{model}") }}'

    accepted, desired = catalog_of(text("a")), catalog_of(text("b"))
    rejected = find_steps(accepted, desired, populated(accepted)).unsupported
    assert [change.code for change in rejected] == [EvolutionCode.EMBEDDING_CHANGED]
    empty = find_steps(accepted, desired)
    assert empty.unsupported == ()
    assert without_ids(next_catalog(accepted, empty.steps)) == without_ids(desired)


def test_a_change_that_copies_a_blob_is_rejected() -> None:
    accepted = catalog_of("node N { b: Blob }")
    desired = catalog_of("node N { b: Blob?  i: I32 @default(1) }")
    rejected = find_steps(accepted, desired, populated(accepted)).unsupported
    assert [change.code for change in rejected] == [EvolutionCode.BLOB_WITH_DEFAULT]
    assert find_steps(accepted, desired).unsupported == ()
    for text in ("node N { b: Blob  i: I32 @default(1) }", "node N { b: Blob?  i: I32? }"):
        assert find_steps(accepted, catalog_of(text), populated(accepted)).unsupported == ()


def test_a_required_property_can_be_added_to_an_empty_type() -> None:
    accepted = catalog_of(BASE)
    desired = catalog_of(BASE.replace("age: I32?", "age: I32?  city: String"))
    assert find_steps(accepted, desired).unsupported == ()
