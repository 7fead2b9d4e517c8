"""The wheel works in an environment without the repository: with its declared packages only, with and without extras.

Installing takes minutes, so the environments of `make test` link the installed packages of this interpreter that the
metadata of the wheel requires. `make soak` installs everything, as a user does, and runs the whole demo.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX

BIN = Path(sys.executable).parent
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel, and an empty directory to work in."""

    root: Path
    work: Path

    @property
    def variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMNIGRAPH_"))}
        home = {"OMNIGRAPH_HOME": str(self.work / "home"), "OMNIGRAPH_CLASS_ARCHIVE": "off"}
        return {**inherited, **home, "PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "COLUMNS": "100"}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [str(self.root / "bin" / command[0]), *command[1:]],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (path,) = target.glob("omnigraph-*.whl")
    return path


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _linked_environment(wheel, tmp_path_factory.mktemp("plain"), "")


@pytest.fixture(scope="module")
def with_server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _linked_environment(wheel, tmp_path_factory.mktemp("server"), "server")


def test_first_example_of_the_readme(plain: Environment) -> None:
    _check_first_example(plain)


def test_commands_without_extras(plain: Environment) -> None:
    _check_commands_without_extras(plain)


def test_server_and_its_pages(with_server: Environment) -> None:
    _check_server(with_server)


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        packaged = {name for name in archive.namelist() if name.startswith("omnigraph/")}
    tracked = subprocess.run(["git", "ls-files", "src/omnigraph"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert packaged >= {name.removeprefix("src/") for name in tracked.stdout.split() if (ROOT / name).exists()}


@pytest.mark.soak
@pytest.mark.parametrize("extra", ["", "[server]"], ids=["plain", "server"])
def test_installation_by_pip(wheel: Path, tmp_path: Path, extra: str) -> None:
    """Everything that the README and the page about the installation promise, after a real `pip install`."""
    environment = _empty_environment(tmp_path)
    constraints = tmp_path / "constraints.txt"
    pins = (ROOT / "requirements.lock").read_text().splitlines()
    constraints.write_text("\n".join(line for line in pins if re.match(r"[\w.-]+==", line)))
    python = str(environment.root / "bin" / "python")
    install = [str(BIN / "pip"), "--python", python, "install", "-q", "-c", str(constraints), f"{wheel}{extra}"]
    subprocess.run(install, check=True, timeout=SECONDS_MAX)
    _check_first_example(environment)
    demo = environment.run("omnigraph", "demo", "--people", "200", "--commits", "12")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    if extra:
        assert "policy denied action 'change' on branch 'main' for actor 'bo'" in demo.stderr
        assert "Skipped" not in demo.stdout
        _check_server(environment)
    else:
        assert demo.stdout.count("Skipped: the server needs the package ") == 1
        _check_commands_without_extras(environment)


def _check_first_example(environment: Environment) -> None:
    example = EXAMPLE.search((ROOT / "README.md").read_text())
    assert example is not None
    (environment.work / "example.py").write_text(f"{example[1]}\nprint(og.__file__)\n")
    ran = environment.run("python", "-W", "error", "example.py")
    assert ran.returncode == 0, ran.stderr
    friends, operations, path = ran.stdout.splitlines()
    assert friends == "[{'f.name': 'Charles'}]"
    assert "merge" in operations
    assert Path(path).is_relative_to(environment.root), "the package of the wheel, not of the repository"


def _check_commands_without_extras(environment: Environment) -> None:
    assert environment.run("omnigraph", "version").returncode == 0
    (environment.work / "p.pg").write_text("node Person { slug: String @key }")
    assert environment.run("omnigraph", "init", "--schema", "p.pg", "served.omni").returncode == 0
    for command in (("serve", "served.omni", "--unauthenticated"), ("demo", "--serve")):
        refused = environment.run("omnigraph", *command)
        assert refused.returncode == 1
        assert re.search(r"the server needs the package \w+, which is not installed", refused.stderr), refused.stderr
        assert "hint: Run `pip install 'omnigraph[server]'`." in refused.stderr


def _check_server(environment: Environment) -> None:
    (environment.work / "p.pg").write_text("node Person { slug: String @key }")
    assert environment.run("omnigraph", "init", "--schema", "p.pg", "served.omni").returncode == 0
    with subprocess.Popen(
        [environment.root / "bin" / "omnigraph", "serve", "served.omni", "--unauthenticated", "--bind", "127.0.0.1:0"],
        cwd=environment.work,
        env=environment.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            name, _, address = server.stdout.readline().strip().partition("=")
            assert name == "OMNIGRAPH_LISTEN_ADDR"
            assert b"<title>Omnigraph</title>" in urlopen(f"http://{address}/").read()
            query = "query add() { insert Person { slug: 'ada' } }".replace("'", '"')
            changed = environment.run("omnigraph", "mutate", "--server", f"http://{address}", "-e", query)
            assert changed.returncode == 0, changed.stderr
            server.send_signal(signal.SIGTERM)
            assert server.wait(SECONDS_MAX) == 0
        finally:
            server.kill()


def _empty_environment(directory: Path) -> Environment:
    environment = Environment(directory / "env", directory / "work")
    environment.work.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment.root)], check=True)
    return environment


def _linked_environment(wheel: Path, directory: Path, extra: str) -> Environment:
    """Install the wheel, and link the packages that it requires with the extra, but no other package."""
    environment = _empty_environment(directory)
    (packages,) = environment.root.glob("lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    linked: set[str] = set()
    for requirement in _closure(map(Requirement, metadata.get_all("Requires-Dist", [])), {extra}):
        installed = distribution(requirement)
        for file in installed.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and top not in linked:
                linked.add(top)
                (packages / top).symlink_to(Path(str(installed.locate_file(top))))
    python = str(environment.root / "bin" / "python")
    install = [str(BIN / "uv"), "pip", "install", "-q", "--offline", "--no-deps", "--python", python, str(wheel)]
    subprocess.run(install, check=True)
    return environment


def _closure(requirements: Iterator[Requirement], extras: set[str], seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the required distributions, and of those that they require."""
    names: set[str] = set()
    for requirement in requirements:
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            continue
        if requirement.name in seen | names:
            continue
        names.add(requirement.name)
        children = map(Requirement, distribution(requirement.name).requires or ())
        names |= _closure(children, requirement.extras or {""}, seen | names)
    return names
