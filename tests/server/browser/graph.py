"""The graph of the browser tests: companies, people and papers, with branches, a merge and a conflict."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import omnigraph as og

SCHEMA: Final = """
// People, what they write and where they work.
node Person {
  slug: String @key
  name: String @index
  born: Date?
  score: I64? @index
  note: String?
  @range(score, 0..)
}
node Company { slug: String @key  city: enum(Oslo, Rome, Lima) @index  tags: [String]?  logo: Blob? }
node Paper { slug: String @key  title: String @index  year: I32  vector: Vector(4)? @embed("title") }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company @card(0..1) { role: String? }
edge Wrote: Person -> Paper @card(0..*)
edge Cites: Paper -> Paper
"""
HTML: Final = '<img src=x onerror="document.title=1">'
BIG: Final = 9_007_199_254_740_993
"""2^53 + 1: a number of JavaScript cannot represent it."""
LONG: Final = "A very long note without an end. " * 500
PEOPLE: Final = 40
_NAMES: Final = ("Ada", "Alan", "Barbara", "Claude", "Edsger", "Grace", "Kurt", "Radia", "Sophie", "Tony")
_SUBJECTS: Final = ("engines", "graphs", "logic", "compilers", "networks", "proofs")


def make_graph(directory: Path) -> Path:
    """Create the graph; `draft` conflicts with main about person p1, and `review/q3` was merged."""
    path, data = directory / "knowledge.omni", directory / "data.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in make_records()))
    graph = og.init(path, SCHEMA, actor="ada")
    graph.load(data)
    review = graph.create_branch("review/q3")
    review.mutate('query add() { insert Company { slug: "northwind", city: "Oslo", logo: "base64:PHN2Zy8+" } }')
    review.mutate('query move() { update Company set { city: "Rome" } where slug = "acme" }')
    graph.mutate('query add() { insert Person { slug: "hedy", name: "Hedy Lamarr", born: date("1914-11-09") } }')
    graph.merge("review/q3")
    draft = graph.create_branch("draft")
    draft.mutate('query rate() { update Person set { score: 7 } where slug = "p1" }')
    draft.mutate('query add() { insert Person { slug: "margaret", name: "Margaret Hamilton" } }')
    graph.mutate('query rate() { update Person set { score: 8 } where slug = "p1" }')
    graph.mutate('query gone() { delete Paper where slug = "d9" }')
    return path


def make_records() -> list[dict[str, Any]]:
    source = Random(1)
    records: list[dict[str, Any]] = []
    for number in range(PEOPLE):
        name = f"{_NAMES[number % 10]} {_NAMES[number // 10][0]}. {_NAMES[(number * 7 + 3) % 10]}son"
        person = {"slug": f"p{number}", "name": name, "score": source.randrange(100)}
        records.append({"type": "Person", "data": person})
    html = {"slug": "html", "name": HTML, "score": BIG, "note": LONG}
    records.append({"type": "Person", "data": html})
    for slug, city in (("acme", "Oslo"), ("globex", "Rome"), ("initech", "Lima")):
        records.append({"type": "Company", "data": {"slug": slug, "city": city, "tags": [city.lower(), "public"]}})
    for number in range(20):
        title = f"On {source.choice(_SUBJECTS)} and {source.choice(_SUBJECTS)}"
        paper = {"slug": f"d{number}", "title": title, "year": 1950 + number}
        records.append({"type": "Paper", "data": paper})
    records.append({"type": "Paper", "data": {"slug": "untitled", "title": " ", "year": 1970}})  # has nothing to embed
    for number in range(PEOPLE):
        for _ in range(2):
            since = source.randrange(1990, 2026)
            other = source.randrange(PEOPLE)
            records.append(_edge("Knows", f"p{number}", f"p{other}", since=since))
        records.append(_edge("WorksAt", f"p{number}", source.choice(("acme", "globex", "initech")), role="engineer"))
        records.append(_edge("Wrote", f"p{number}", f"d{source.randrange(20)}"))
    records += [_edge("Cites", f"d{number}", f"d{source.randrange(number)}") for number in range(1, 20)]
    return records


def _edge(kind: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": kind, "from": source, "to": target, "data": data}
