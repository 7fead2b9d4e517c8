"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import S3Server
from tests.storage.lossy_proxy import LossyProxy


@pytest.fixture
def lossy_proxy(s3_server: S3Server) -> Iterator[LossyProxy]:
    """A proxy to the S3 server that loses responses."""
    with LossyProxy(s3_server).running() as proxy:
        yield proxy
