"""Any text gives a catalog or problems, never another error: random text, changed schemas, random tokens."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.base.errors import SchemaTextError
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema
from tests.schema.golden_files import BAD, GOOD, read_text, schema_files

TEXTS = [read_text(path) for path in (*schema_files(GOOD), *schema_files(BAD))]
TOKENS = (
    *("node", "edge", "interface", "implements", "Person", "Named", "Knows", "name", "since", "id", "src", "dst"),
    *("String", "I32", "Vector", "enum", "{", "}", "(", ")", "[", "]", ":", "->", ",", "?", "*", "..", "="),
    *("@key", "@unique", "@index", "@range", "@check", "@card", "@embed", "@default", "@description", "@x"),
    *("@rename_from", "0", "-1", "1.5", "1e999", "2024-01-01", '"a"', '"["', "model", "true", "//", "/*", "*/"),
    *('"open', ";", "\x00", "é", "\ufeff", "\n", "\\"),
)
CPU_SECONDS_MAX = 60.0


def assert_handled(text: str) -> None:
    """Check that a text gives problems, or a catalog that can be printed and stored."""
    rejected: SchemaTextError | None = None
    try:
        tree = parse_schema(text)
        assert parse_schema(print_schema(tree)) == tree
        catalog = build_catalog(tree)
    except SchemaTextError as error:
        rejected = error
    if rejected is None:
        assert catalog_from_json(catalog_to_json(catalog)) == catalog
    else:
        assert rejected.problems
        assert rejected.render()


@given(st.text(alphabet=st.characters(), max_size=200))
def test_random_text(text: str) -> None:
    assert_handled(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=60), st.sampled_from((" ", "", "\n")))
@settings(max_examples=300)
def test_random_tokens(tokens: list[str], glue: str) -> None:
    assert_handled(glue.join(tokens))


@st.composite
def mutated_schemas(draw: st.DrawFn) -> str:
    """Draw a schema with a few pieces removed, doubled, or replaced by a token."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from((*TOKENS, "", text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    return text


@given(mutated_schemas())
@settings(max_examples=300)
def test_mutated_schemas(text: str) -> None:
    assert_handled(text)


@st.composite
def token_schemas(draw: st.DrawFn) -> str:
    """Draw texts with valid syntax and no meaning, which reach the checks."""
    words = st.sampled_from(("name", "age", "src", "id", "Person", "Named", "nothing"))
    types = st.sampled_from(
        ("String", "I32?", "[I32]", "Blob", "Vector(3)", "Vector(0)", "enum(a, b)", "enum()", "Nope")
    )
    literal = st.sampled_from(("a", "1", "-1", "1e999", '"a"', '"["', "true", "0..1", "..", "5..1", 'model="m"'))
    names = st.sampled_from(
        ("key", "unique", "index", "range", "check", "card", "embed", "default", "rename_from", "x")
    )
    annotation = st.builds(
        lambda name, arguments: f"@{name}({', '.join(arguments)})" if arguments else f"@{name}",
        names,
        st.lists(literal | words, max_size=3),
    )
    item = st.builds(lambda name, kind: f"{name}: {kind}", words, types) | annotation
    body = st.lists(item, max_size=8).map(" ".join)
    parts = [f"interface Named {{ {draw(body)} }}"]
    parts += [f"node {draw(words)} implements {draw(words)} {draw(annotation)} {{ {draw(body)} }}" for _ in range(2)]
    parts.append(f"edge {draw(words)}: {draw(words)} -> Person {draw(annotation)} {{ {draw(body)} }}")
    return "\n".join(parts)


@given(token_schemas())
@settings(max_examples=120)
def test_valid_syntax_without_meaning(text: str) -> None:
    assert_handled(text)


HALF = limits.SCHEMA_TEXT_BYTES_MAX // 2
HOSTILE = {
    "deep-lists": "node A { a: " + "[" * HALF,
    "deep-braces": "node A " + "{" * HALF,
    "deep-parentheses": "node A { a: I32 @x" + "(" * HALF,
    "one-name": "node A { " + "a" * HALF + ": I32 }",
    "one-number": "node A { a: I32 @default(" + "9" * HALF + ") }",
    "one-string": 'node A { a: String @default("' + "x" * HALF + '") }',
    "one-open-string": 'node A { a: String @default("' + "\\n" * (HALF // 2),
    "one-open-comment": "node A {} /*" + "* /" * (HALF // 3),
    "headers": "node A {\n" * (HALF // 9),
    "unknown-types": "node A {" + " ".join(f"p{number}: Nope{number}" for number in range(5_000)) + "}",
    "unknown-columns": "node A {" + " ".join(f"@unique(p{number})" for number in range(5_000)) + "}",
    "unknown-ends": "".join(f"edge E{number}: A{number} -> B{number}\n" for number in range(2_000)),
    "defaults-and-ranges": "node A {"
    + " ".join(f"p{number}: I32 @default(5) @range(p{number}, 9..)" for number in range(2_000))
    + "}",
    "wide-unique": "node A { a: I32 @unique(" + ", ".join(["a"] * 10_000) + ") }",
    "wide-enum": "node A { a: enum(" + ", ".join(f"v{number}" for number in range(20_000)) + ") @default(nope) }",
    "many-interfaces": "interface I { a: I32 }\nnode A implements " + ", ".join(["I"] * 20_000) + " {}",
    "many-annotations": "node A { a: I32 " + "@x " * 10_000 + "}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_limited_time(name: str) -> None:
    started = time.process_time()  # CPU time, so other processes do not count
    assert_handled(HOSTILE[name])
    assert time.process_time() - started < CPU_SECONDS_MAX


def test_no_more_problems_than_the_limit() -> None:
    with pytest.raises(SchemaTextError) as caught:
        build_catalog(parse_schema(HOSTILE["unknown-types"]))
    assert len(caught.value.problems) == 100
