"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import S3Server
from tests.s3_proxy import S3Proxy


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    """A proxy to the S3 server that can lose responses."""
    with S3Proxy(s3_server).running() as proxy:
        yield proxy
