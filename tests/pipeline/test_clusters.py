"""The same tasks on executors in other processes: of a local cluster, and of a standalone master."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import lance
import pyspark
import pytest

from omnigraph.pipeline.spark.connect import is_listening
from omnigraph.pipeline.spark.java import find_java
from tests.conftest import _free_port
from tests.pipeline.process import ProcessEnvironment
from tests.style.source import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("spark")

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.executor.extraJavaOptions": QUICK}


@pytest.mark.soak  # loads and maintenance run on such a cluster too
def test_two_executors_of_a_local_cluster(world: ProcessEnvironment) -> None:
    outcome = world.run("pair", {"MASTER": "local-cluster[2,1,1024]", **small_executors(world)})
    assert sorted(result["number"] for result in outcome["results"]) == [0, 1]
    assert len({result["daemon"] for result in outcome["results"]}) == 2
    assert outcome["error"]["class"] == "WriteConflictError"
    assert outcome["error"]["hint"] == "again"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a master with two workers, all on loopback."""
    folder = tmp_path_factory.mktemp("standalone")
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    environ = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": str(ROOT),
    }
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "700m", "--webui-port", "0"]
    commands = [master, *([*worker, "--work-dir", str(folder / name), address] for name in ("one", "two"))]
    log = (folder / "log").open("wb")
    with log, ExitStack() as stack:
        for number, command in enumerate(commands):
            process = stack.enter_context(
                subprocess.Popen([SPARK_CLASS, *command], cwd=folder, env=environ, stdout=log, stderr=log)
            )
            stack.callback(process.terminate)
            if number == 0:
                wait_until(lambda: is_listening("127.0.0.1", port))
        joined = "Successfully registered with master"
        wait_until(lambda: (folder / "log").read_text().count(joined) == 2)
        yield address


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with all packages but this one, as on a cluster without it."""
    folder = tmp_path_factory.mktemp("other-python")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(str(Path(lance.__file__).parents[1]))
    python = folder / "bin" / "python"
    command = [str(python), "-c", "import lance, omnigraph"]
    completed = subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)
    assert "No module named 'omnigraph'" in completed.stderr
    return python


@pytest.mark.soak
def test_two_workers_of_a_standalone_master_get_the_package(
    world: ProcessEnvironment, standalone: str, other_python: Path
) -> None:
    outcome = world.run("pair", {"MASTER": standalone, "PYSPARK_PYTHON": str(other_python), **small_executors(world)})
    assert sorted(result["number"] for result in outcome["results"]) == [0, 1]
    assert len({result["daemon"] for result in outcome["results"]}) == 2
    assert {result["python"] for result in outcome["results"]} == {str(other_python)}
    assert outcome["error"]["class"] == "WriteConflictError"


@pytest.mark.soak
def test_executors_without_lance_are_an_error(
    world: ProcessEnvironment, standalone: str, tmp_path: Path, other_python: Path
) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{_without_lance(tmp_path)}:$PYTHONPATH" exec {other_python} "$@"\n')
    bare.chmod(0o755)
    world_error = world.run("lacking", {"MASTER": standalone, "PYSPARK_PYTHON": str(bare), **small_executors(world)})[
        "error"
    ]
    assert world_error["error_code"] == "executors_lack_package"
    assert "'lance'" in world_error["error"]


def _without_lance(folder: Path) -> Path:
    hiding = folder / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'lance' else f(n, *a)\n"
    )
    return hiding


def small_executors(world: ProcessEnvironment) -> dict[str, str]:
    """Return an environment with small executors that start quickly."""
    folder = world.folder.parent / f"{world.folder.name}-conf"
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SMALL.items()))
    return {"SPARK_CONF_DIR": str(folder)}
