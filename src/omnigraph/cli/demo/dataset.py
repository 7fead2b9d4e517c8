"""Generate the data of the demo: a company with people, teams, projects and documents.

In: the number of people. Out: a schema, a data file that `load` reads, and a file of queries. The same number always
gives the same files. The vector of a document represents its subject: documents about the same subject have similar
vectors, whatever their words are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

SCHEMA: Final = """\
node Person {
  slug: String @key
  name: String
  title: String
  salary: I32
  @range(salary, 0..1000000)
}
node Team { slug: String @key  city: String }
node Project { slug: String @key  status: enum(planned, running, done) @index }
node Document {
  slug: String @key
  text: String @index
  vector: Vector(16) @index
}

edge Knows: Person -> Person
edge MemberOf: Person -> Team
edge WorksOn: Person -> Project { hours: I32 }
edge Wrote: Person -> Document
"""
QUERIES: Final = """\
query lookup($slug: String) {
  match { $p: Person { slug: $slug }  $p memberOf $t }
  return { $p.name, $p.title, $p.salary, $t.city }
}

query colleagues($slug: String) {
  match {
    $p: Person { slug: $slug }
    $p knows{1,2} $c
    $c worksOn $w
    $w.status = "running"
  }
  return { $w.slug as project, count(distinct $c) as people }
  order { people desc, project }
  limit 5
}

query about($words: String) {
  match { $d: Document  search($d.text, $words) }
  return { $d.slug, $d.text, bm25($d.text, $words) as score }
  order { score desc }
  limit 3
}

query like($words: String, $vector: Vector(16)) {
  match { $p wrote $d  $d: Document  $p memberOf $t  $t.city = "Oslo" }
  return { $d.slug, $p.name, $d.text, rrf(bm25($d.text, $words), nearest($d.vector, $vector)) as score }
  limit 3
}
"""
_FIRST: Final = ("Ada", "Alan", "Barbara", "Claude", "Edsger", "Grace", "Kurt", "Radia", "Sophie", "Tony")
_LAST: Final = ("Babbage", "Dijkstra", "Hoare", "Hopper", "Liskov", "Lovelace", "Perlman", "Shannon")
_TITLES: Final = ("engineer", "designer", "analyst", "manager", "writer", "operator")
_CITIES: Final = ("Oslo", "Rome", "Lima", "Kyoto", "Accra", "Quito")
_STATUS: Final = ("planned", "running", "done")
_SUBJECTS: Final = {
    "storage": ("disk", "file", "version", "backup", "archive", "object"),
    "graphs": ("edge", "node", "path", "neighbour", "cycle", "tree"),
    "pay": ("salary", "budget", "invoice", "tax", "contract", "bonus"),
    "travel": ("train", "flight", "hotel", "visa", "ticket", "map"),
    "safety": ("alarm", "fire", "helmet", "audit", "incident", "exit"),
    "search": ("query", "index", "ranking", "word", "vector", "score"),
}
_FILLERS: Final = ("the", "plan", "of", "our", "new", "report", "on", "how", "we", "check", "and", "share")
_VECTOR_DIMENSIONS: Final = 16


@dataclass(frozen=True, slots=True)
class Company:
    """The number of nodes of each type, computed from the number of people."""

    people: int

    @property
    def teams(self) -> int:
        return self.people // 50 + 1

    @property
    def projects(self) -> int:
        return self.people // 20 + 1

    @property
    def documents(self) -> int:
        return self.people // 2


def write_company(company: Company, directory: Path) -> int:
    """Write `company.pg`, `company.gq`, `like.json` and `company.jsonl`; return the number of lines of data."""
    (directory / "company.pg").write_text(SCHEMA, encoding="utf-8")
    (directory / "company.gq").write_text(QUERIES, encoding="utf-8")
    like = {"words": "ranking score", "vector": _subject_vector("search")}
    (directory / "like.json").write_text(json.dumps(like), encoding="utf-8")
    lines = 0
    with (directory / "company.jsonl").open("w", encoding="utf-8") as file:
        for record in chain(_nodes(company), _edges(company)):
            file.write(json.dumps(record) + "\n")
            lines += 1
    return lines


def _subject_vector(subject: str) -> list[float]:
    """Return the vector of a subject; vectors of its documents are near it."""
    random = Random(subject)
    return [round(random.uniform(-1, 1), 3) for _ in range(_VECTOR_DIMENSIONS)]


def _nodes(company: Company) -> Iterator[dict[str, object]]:
    random = Random(1)
    for number in range(company.people):
        yield _node(
            "Person",
            slug=f"p{number}",
            name=f"{random.choice(_FIRST)} {random.choice(_LAST)}",
            title=random.choice(_TITLES),
            salary=random.randrange(30, 160) * 1_000,
        )
    for number in range(company.teams):
        yield _node("Team", slug=f"t{number}", city=random.choice(_CITIES))
    for number in range(company.projects):
        yield _node("Project", slug=f"w{number}", status=random.choice(_STATUS))
    subjects = {subject: _subject_vector(subject) for subject in _SUBJECTS}
    for number in range(company.documents):
        subject = random.choice(tuple(_SUBJECTS))
        words = random.choices(_SUBJECTS[subject], k=4) + random.choices(_FILLERS, k=6)
        random.shuffle(words)
        vector = [round(value + random.gauss(0, 0.3), 3) for value in subjects[subject]]
        yield _node("Document", slug=f"d{number}", text=" ".join(words), vector=vector)


def _edges(company: Company) -> Iterator[dict[str, object]]:
    random = Random(2)
    people, teams, projects, documents = company.people, company.teams, company.projects, company.documents
    for number in range(people):
        yield _edge("MemberOf", f"p{number}", f"t{random.randrange(teams)}")
        for _ in range(2):
            # The square makes small numbers more likely, so that some people have many incoming edges.
            yield _edge("Knows", f"p{number}", f"p{int(random.random() ** 2 * people)}")
        yield _edge("WorksOn", f"p{number}", f"w{random.randrange(projects)}", hours=random.randrange(1, 40))
    for number in range(documents):
        yield _edge("Wrote", f"p{random.randrange(people)}", f"d{number}")


def _node(kind: str, **values: object) -> dict[str, object]:
    return {"type": kind, "data": values}


def _edge(kind: str, source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": kind, "from": source, "to": target, "data": values}
