"""A schema file and a graph for the tests of the command line."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

import omnigraph
from tests.cli.process import SCHEMA
from tests.conftest import S3Server


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a schema file."""
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def made_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "graph.omni"
    omnigraph.init(str(path), SCHEMA, actor="ada")
    return path


@pytest.fixture
def graph(directory: Path, made_graph: Path) -> Path:
    """A new copy of a graph with three tables and one commit."""
    copy = directory / "graph.omni"
    shutil.copytree(made_graph, copy)
    return copy


@pytest.fixture
def s3_env(s3_server: S3Server) -> dict[str, str]:
    """The variables with which a process reaches the S3 server."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
    }


@pytest.fixture
def s3_place(s3_server: S3Server, s3_env: dict[str, str]) -> tuple[str, dict[str, str]]:
    """An empty prefix on S3, and the variables with which a process reaches it."""
    return f"s3://{s3_server.bucket}/{uuid.uuid4().hex}/graph.omni", s3_env
