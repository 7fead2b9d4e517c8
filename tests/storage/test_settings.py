"""Storage settings for workers: sent by value on this machine, secrets by name to a cluster."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

from omnigraph.base.errors import StorageError
from omnigraph.storage import settings
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Durability, Location, parse_location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.settings import DURABILITY_VARIABLE, StorageSettings, allow_sending_secrets, read_settings
from tests.conftest import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "caller", "AWS_SECRET_ACCESS_KEY": "hidden"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("AWS_") or name == DURABILITY_VARIABLE:
            monkeypatch.delenv(name)


@pytest.fixture
def to_a_cluster() -> object:
    allow_sending_secrets(False)
    yield None
    allow_sending_secrets(True)
    settings._replaced_secrets.clear()


def aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def test_a_worker_has_the_settings_of_the_caller_and_then_its_own_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_REGION": "x", "HTTPS_PROXY": "p"}.items():
        monkeypatch.setenv(name, value)
    sent = pickle.loads(pickle.dumps(read_settings(by_name=False)))
    for name in (*KEYS, "HTTPS_PROXY"):
        monkeypatch.delenv(name)
    own = {"AWS_REGION": "worker", "AWS_SESSION_TOKEN": "worker", "ENDPOINT": "http://worker"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    with sent.applied():
        assert aws() == {**KEYS, "AWS_REGION": "x"}
        assert os.environ["HTTPS_PROXY"] == "p"
        assert "ENDPOINT" not in os.environ
        assert read_settings(by_name=True) == sent, "a worker sends the settings of its caller"
    assert {name: os.environ.get(name) for name in own} == own
    assert "HTTPS_PROXY" not in os.environ


def test_a_cluster_gets_the_names_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": "http://b", "AWS_CA_BUNDLE": "caller.pem"}.items():
        monkeypatch.setenv(name, value)
    sent = read_settings(by_name=True)
    assert sent == StorageSettings({"AWS_ENDPOINT_URL": "http://b"}, tuple(KEYS), by_name=True)
    assert b"hidden" not in pickle.dumps(sent)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "worker")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://a")
    monkeypatch.setenv("AWS_CA_BUNDLE", "worker.pem")
    with sent.applied():
        assert aws() == {
            "AWS_ACCESS_KEY_ID": "caller",
            "AWS_SECRET_ACCESS_KEY": "worker",
            "AWS_ENDPOINT_URL": "http://b",
            "AWS_CA_BUNDLE": "worker.pem",
        }


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("caller", ["process", None])
def test_a_worker_has_the_durability_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, by_name: bool, caller: str | None
) -> None:
    if caller is not None:
        monkeypatch.setenv(DURABILITY_VARIABLE, caller)
    sent = pickle.loads(pickle.dumps(read_settings(by_name=by_name)))
    monkeypatch.setenv(DURABILITY_VARIABLE, "sync" if caller else "process")
    with sent.applied():
        assert parse_location("/tmp").durability is Durability(caller or "sync")
    assert parse_location("/tmp").durability is Durability("sync" if caller else "process")


def test_missing_variable_of_a_worker_is_reported_on_use(s3_location: Location) -> None:
    with StorageSettings(names=("AWS_SECRET_ACCESS_KEY",), by_name=True).applied():
        ObjectStore(parse_location("/tmp")).list_names()
        for use in (lambda: ObjectStore(s3_location).list(""), lambda: open_dataset(s3_location)):
            with pytest.raises(StorageError) as caught:
                use()
            assert caught.value.code == "worker_setting_missing"
            assert caught.value.facts["variable"] == "AWS_SECRET_ACCESS_KEY"
            assert socket.gethostname() in caught.value.message


def test_secrets_in_options_are_not_sent_to_a_cluster(to_a_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    location = parse_location("s3://b/g", {"aws_secret_access_key": "hidden", "aws_region": "x"})
    sent = pickle.dumps(location)
    assert b"hidden" not in sent
    assert "hidden" not in repr(location)
    back = pickle.loads(sent).storage_options
    assert back["aws_secret_access_key"] == "hidden", "this process has the secret"
    settings._replaced_secrets.clear()  # as in another process
    with pytest.raises(StorageError, match="AWS_SECRET_ACCESS_KEY"):
        pickle.loads(sent).storage_options  # noqa: B018
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "worker")
    with StorageSettings(by_name=True).applied():
        options = pickle.loads(sent).storage_options
    assert (options["aws_secret_access_key"], options["aws_region"]) == ("worker", "x")


def test_options_are_sent_completely_on_this_machine() -> None:
    location = parse_location("s3://b/g", {"aws_secret_access_key": "hidden"})
    assert pickle.loads(pickle.dumps(location)) == location


def test_changed_variables_apply_to_open_stores(
    s3_server: S3Server, s3_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker serves several callers one after the other, and both libraries cache open stores."""
    plain = parse_location(s3_location.uri, {"allow_http": "true"})
    for name, value in {**KEYS, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    dead = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    alive = {"AWS_ENDPOINT_URL": s3_server.endpoint}
    common = dict(aws())
    ObjectStore(s3_location).create("here", b"yes")
    for variables in (alive, dead, alive):
        with StorageSettings({**common, **variables}).applied():
            if variables is alive:
                assert ObjectStore(plain).read("here") == b"yes"
            else:
                with pytest.raises(StorageError):
                    ObjectStore(plain).read("here")


def test_lance_reads_variables_without_a_prefix(s3_server: S3Server, s3_location: Location) -> None:
    """So a worker must remove these too. If this fails, `_UNPREFIXED` in storage/settings.py is unnecessary."""
    lance.write_dataset(pa.table({"a": [1]}), s3_location.uri, storage_options=s3_location.storage_options)
    options = {key: value for key, value in s3_location.options if key != "aws_endpoint"}
    program = f"import lance; print(lance.dataset({s3_location.uri!r}, storage_options={options!r}).count_rows())"
    variables = {**os.environ, "ENDPOINT": s3_server.endpoint}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr
