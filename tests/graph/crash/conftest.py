"""Start one killer per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.graph.crash.killer import Killer, start_killer


@pytest.fixture(scope="session")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    with start_killer(tmp_path_factory.mktemp("crash")) as killer:
        yield killer
