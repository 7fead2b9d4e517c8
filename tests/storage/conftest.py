"""What the storage tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import S3Server
from tests.storage.lossy_proxy import LossyProxy


@pytest.fixture
def lossy_proxy(s3_server: S3Server) -> Iterator[LossyProxy]:
    """A way to the S3 server on which answers get lost."""
    with LossyProxy(s3_server).running() as proxy:
        yield proxy
