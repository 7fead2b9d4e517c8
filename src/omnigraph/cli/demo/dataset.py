"""Generate the data of the demo: a company with people, teams, projects and documents, as in `company.pg`.

In: the number of people. Out: a data file that `load` reads, and the parameters of a query. The same number always
gives the same files. The vector of a document represents its subject: documents about the same subject have similar
vectors, whatever their words are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

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


def write_company(people_count: int, directory: Path) -> int:
    """Write `company.jsonl` and `like.json`; return the number of lines of data."""
    like = {"words": "ranking score", "vector": _subject_vector("search")}
    (directory / "like.json").write_text(json.dumps(like), encoding="utf-8")
    lines = [json.dumps(record) for record in _records(people_count)]
    (directory / "company.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return len(lines)


def _subject_vector(subject: str) -> list[float]:
    """Return the vector of a subject; vectors of its documents are near it."""
    random = Random(subject)
    return [round(random.uniform(-1, 1), 3) for _ in range(_VECTOR_DIMENSIONS)]


def _records(people_count: int) -> Iterator[dict[str, object]]:
    teams, projects, documents = people_count // 50 + 1, people_count // 20 + 1, people_count // 2
    random = Random(1)
    for number in range(people_count):
        yield _node(
            "Person",
            slug=f"p{number}",
            name=f"{random.choice(_FIRST)} {random.choice(_LAST)}",
            title=random.choice(_TITLES),
            salary=random.randrange(30, 160) * 1_000,
        )
    for number in range(teams):
        yield _node("Team", slug=f"t{number}", city=random.choice(_CITIES))
    for number in range(projects):
        yield _node("Project", slug=f"project{number}", status=random.choice(_STATUS))
    subjects = {subject: _subject_vector(subject) for subject in _SUBJECTS}
    for number in range(documents):
        subject = random.choice(tuple(_SUBJECTS))
        words = random.choices(_SUBJECTS[subject], k=4) + random.choices(_FILLERS, k=6)
        random.shuffle(words)
        vector = [round(value + random.gauss(0, 0.3), 3) for value in subjects[subject]]
        yield _node("Document", slug=f"d{number}", text=" ".join(words), vector=vector)
    random = Random(2)
    for number in range(people_count):
        yield _edge("MemberOf", f"p{number}", f"t{random.randrange(teams)}")
        for _ in range(2):
            # The square makes small numbers more likely, so that some people have many incoming edges.
            yield _edge("Knows", f"p{number}", f"p{int(random.random() ** 2 * people_count)}")
        yield _edge("WorksOn", f"p{number}", f"project{random.randrange(projects)}", hours=random.randrange(1, 40))
    for number in range(documents):
        yield _edge("Wrote", f"p{random.randrange(people_count)}", f"d{number}")


def _node(kind: str, **values: object) -> dict[str, object]:
    return {"type": kind, "data": values}


def _edge(kind: str, source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": kind, "from": source, "to": target, "data": values}
