"""All files name the same version of the release and of the storage format."""

from __future__ import annotations

import json
import re
from pathlib import Path

from omnigraph import __version__
from omnigraph.base.version import INTERNAL_SCHEMA_VERSION
from tests.cli.process import run_in_process
from tests.docs.markdown import ROOT


def test_package_command_and_changelog_agree(tmp_path: Path) -> None:
    told = json.loads(run_in_process("version", "--json", cwd=tmp_path).stdout)
    changelog = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    project = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert changelog is not None
    assert project is not None
    assert [told["version"], changelog[1], project[1]] == [__version__] * 3


def test_documents_name_the_versions() -> None:
    install, upgrade = ((ROOT / "docs" / "user" / name).read_text() for name in ("install.md", "upgrade.md"))
    assert f"omnigraph {__version__}\ninternal-schema {INTERNAL_SCHEMA_VERSION}\n" in install
    assert f"its stamp is {INTERNAL_SCHEMA_VERSION} " in upgrade
