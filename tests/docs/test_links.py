"""Every link between documents has an existing target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT, anchors, links


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_have_a_target(document: Path) -> None:
    text = (ROOT / document).read_text()
    assert [link for link in links(text) if not _has_target(ROOT / document, link)] == []


@pytest.mark.parametrize(("index", "folder"), [("docs/user/README.md", "docs/user"), ("README.md", "docs/dev")])
def test_every_page_is_in_its_index(index: str, folder: str) -> None:
    linked = {(ROOT / index).parent / link.partition("#")[0] for link in links((ROOT / index).read_text())}
    pages = {path for path in (ROOT / folder).glob("*.md") if path != ROOT / index}
    assert pages - {path.resolve() for path in linked} == set()


def test_broken_link_is_reported(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# One heading\n[x](#one-heading) [y](#another) [z](b.md) [w](a.md#one-heading)")
    broken = [link for link in links(document.read_text()) if not _has_target(document, link)]
    assert broken == ["#another", "b.md"]


def _has_target(document: Path, link: str) -> bool:
    if "://" in link or link.startswith("mailto:"):
        return True
    name, _, anchor = link.partition("#")
    target = document.parent / name if name else document
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))
