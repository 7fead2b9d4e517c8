"""The master that Spark's own settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.pipeline.spark.connect import connect_session
from omnigraph.pipeline.spark.session import configured_master, read_spark_defaults


def test_nothing_is_configured() -> None:
    assert configured_master({}) is None


def test_files_win_over_variables_and_a_master_over_a_connect_server(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# a comment\n\nspark.master   spark://a:7077\nspark.x=y z\nalone\n")
    files, variables = {"SPARK_CONF_DIR": str(tmp_path)}, {"MASTER": "local[3]", "SPARK_REMOTE": "sc://b"}
    assert configured_master({**files, **variables}) == "spark://a:7077"
    assert configured_master(variables) == "local[3]"
    assert configured_master({"SPARK_REMOTE": "sc://b"}) == "sc://b"
    assert read_spark_defaults(files) == {"spark.master": "spark://a:7077", "spark.x": "y z"}


@pytest.mark.parametrize("line", ["spark.master {}", "spark.master={}", " spark.master =  {} ", "spark.master:{}"])
def test_value_may_contain_the_separator(tmp_path: Path, line: str) -> None:
    address = "sc://a:15002/;token=b"
    (tmp_path / "spark-defaults.conf").write_text(line.format(address))
    assert configured_master({"SPARK_CONF_DIR": str(tmp_path)}) == address


@pytest.mark.parametrize("address", ["sc://", "sc://host:port"])
def test_invalid_address(address: str) -> None:
    with pytest.raises(UsageError, match="invalid address"):
        connect_session(address, {})
