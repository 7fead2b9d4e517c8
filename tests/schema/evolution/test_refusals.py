"""Every refusal, from two texts; and that nothing of what is refused is planned as a step."""

from __future__ import annotations

import pytest

from omnigraph.schema.evolution.apply import next_catalog
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.diff import find_steps
from tests.schema.evolution.populated import BASE, COMPANY, KNOWS, PERSON, populated
from tests.schema.evolution.schema_pairs import without_ids
from tests.schema.incarnations import catalog_of

REFUSALS = {
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
        "",
    ),
    "other ends": (
        "Knows: Person -> Person",
        "Knows: Person -> Company",
        EvolutionCode.ENDS_CHANGED,
        "it ends at another node type than before",
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
    "an enum that becomes free": ("mood: enum(glad, sad)", "mood: String", EvolutionCode.TYPE_WIDENED, ""),
    "a property renamed over another": (
        "age: I32?  mood: enum(glad, sad)  name: String }",
        "mood: enum(glad, sad)  name: String @rename_from(age) }",
        EvolutionCode.RENAME_TAKEN,
        "age would become name, which is there already",
    ),
    "a type renamed over another": (
        PERSON + COMPANY + KNOWS,
        "node Company @rename_from(Person) { name: String @key }\n",
        EvolutionCode.RENAME_TAKEN,
        "node:Person would become node:Company, which is there already",
    ),
    "a property renamed from nothing": (
        "age: I32?",
        "years: I32? @rename_from(ages)",
        EvolutionCode.RENAME_UNKNOWN,
        "there is no property ages",
    ),
    "a type renamed from nothing": (
        COMPANY,
        COMPANY + "node City @rename_from(Town) { name: String @key }\n",
        EvolutionCode.RENAME_UNKNOWN,
        "there is no node type Town",
    ),
}


@pytest.mark.parametrize(("old", "new", "code", "detail"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusal(old: str, new: str, code: EvolutionCode, detail: str) -> None:
    assert BASE.count(old) == 1
    accepted = catalog_of(BASE)
    found = find_steps(accepted, catalog_of(BASE.replace(old, new)), populated(accepted))
    assert [refusal.code for refusal in found.unsupported] == [code]
    assert detail in found.unsupported[0].detail


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
    ids=["no default", "renamed from nothing", "renamed over another", "another type"],
)
def test_what_is_refused_is_no_step(old: str, new: str) -> None:
    accepted = catalog_of(BASE)
    found = find_steps(accepted, catalog_of(BASE.replace(old, new)), populated(accepted))
    assert found.unsupported
    assert found.steps == ()


def test_every_code_is_refused_somewhere() -> None:
    tested = {code for _, _, code, _ in REFUSALS.values()}
    others = {
        EvolutionCode.EMBEDDING_CHANGED,
        EvolutionCode.BLOB_BESIDE_DEFAULT,
        EvolutionCode.BLOB_BESIDE_HARD_DROP,
    }
    assert tested | others == set(EvolutionCode)
    assert len({code.code for code in EvolutionCode}) == len(EvolutionCode)


def test_another_model_for_vectors_that_exist() -> None:
    def text(model: str) -> str:
        return f'node N {{ bio: String  v: Vector(8)? @embed("bio", model="{model}") }}'

    accepted, wanted = catalog_of(text("a")), catalog_of(text("b"))
    refused = find_steps(accepted, wanted, populated(accepted)).unsupported
    assert [found.code for found in refused] == [EvolutionCode.EMBEDDING_CHANGED]
    empty = find_steps(accepted, wanted)
    assert empty.unsupported == ()
    assert without_ids(next_catalog(accepted, empty.steps)) == without_ids(wanted)


def test_a_blob_is_not_copied() -> None:
    accepted = catalog_of("node N { b: Blob }")
    wanted = catalog_of("node N { b: Blob?  i: I32 @default(1) }")
    refused = find_steps(accepted, wanted, populated(accepted)).unsupported
    assert [found.code for found in refused] == [EvolutionCode.BLOB_BESIDE_DEFAULT]
    assert find_steps(accepted, wanted).unsupported == ()
    for text in ("node N { b: Blob  i: I32 @default(1) }", "node N { b: Blob?  i: I32? }"):
        assert find_steps(accepted, catalog_of(text), populated(accepted)).unsupported == ()


def test_a_required_property_may_come_to_an_empty_type() -> None:
    accepted = catalog_of(BASE)
    wanted = catalog_of(BASE.replace("age: I32?", "age: I32?  city: String"))
    assert find_steps(accepted, wanted).unsupported == ()
