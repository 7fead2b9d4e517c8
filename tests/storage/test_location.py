from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.storage.location import S3_DEFAULTS, Durability, Location, Scheme, parse_location


def test_a_path_becomes_absolute_with_links_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    real = os.path.realpath(tmp_path / "real" / "g.omni")
    for text in ("link/g.omni", "./link/../real/g.omni", str(tmp_path / "link" / "g.omni")):
        assert parse_location(text).uri == real
    assert parse_location((tmp_path / "link" / "g.omni").as_uri()).uri == real


def test_escapes_in_a_file_uri_are_resolved(tmp_path: Path) -> None:
    path = tmp_path / "a b%"
    assert parse_location(path.as_uri()).uri == os.path.realpath(path)


@pytest.mark.parametrize("text", ["a:b", "c:\\graphs\\g.omni", "node:Person"])
def test_colon_alone_is_not_a_scheme(text: str) -> None:
    assert parse_location(text).scheme is Scheme.LOCAL


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "uri_empty"),
        ("a\0b", "uri_empty"),
        ("/", "uri_root"),
        ("a?b", "uri_path"),
        ("a\nb/g.omni", "uri_path"),
        ("\x1b[31m", "uri_path"),
        ("\udcff", "uri_path"),
        ("x" * 256, "uri_path"),
        ("x/" * 2000, "uri_path"),
        ("http://host/g", "uri_is_server"),
        ("https://host/g", "uri_is_server"),
        ("gs://bucket/g.omni", "uri_scheme"),
        ("shared-memory://a/b", "uri_scheme"),
        ("file://host/g.omni", "uri_file"),
        ("file:", "uri_file"),
        ("s3://bucket", "uri_bucket"),
        ("s3://bucket/", "uri_bucket"),
        ("s3:///g.omni", "uri_bucket"),
        ("s3://bucket/../g.omni", "uri_prefix"),
        ("s3://bucket/a//b", "uri_prefix"),
        ("s3://bucket/g?x=1", "uri_prefix"),
        ("s3://bucket/g#x", "uri_prefix"),
    ],
)
def test_invalid_location_is_rejected_with_a_hint(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_location(text)
    assert caught.value.code == code
    assert caught.value.hint


def test_child_has_the_settings_of_its_parent() -> None:
    child = parse_location("S3://bucket/g.omni/", {"aws_region": "eu-west-1"}).child("nodes/a")
    assert child.uri == "s3://bucket/g.omni/nodes/a"
    assert ("aws_region", "eu-west-1") in child.options


def test_s3_has_bounded_retries_by_default() -> None:
    assert dict(parse_location("s3://bucket/g").options) == dict(S3_DEFAULTS)
    own = dict(parse_location("s3://bucket/g", {"CLIENT_MAX_RETRIES": "9"}).options)
    assert own == {**S3_DEFAULTS, "client_max_retries": "9"}


def test_a_plain_http_endpoint_allows_http(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parse_location("s3://bucket/g", {"aws_endpoint": "http://127.0.0.1:9000"})
    assert dict(plain.options)["allow_http"] == "true"
    assert "allow_http" not in dict(parse_location("s3://bucket/g", {"aws_endpoint": "https://h"}).options)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert dict(parse_location("s3://bucket/g").options)["allow_http"] == "true"
    secure = parse_location("s3://bucket/g", {"aws_endpoint": "https://h"})
    assert "allow_http" not in dict(secure.options)


def test_executors_receive_every_member() -> None:
    options = (("aws_region", "eu"),)
    child = Location(scheme=Scheme.S3, uri="s3://bucket/g", options=options, durability=Durability.PROCESS).child("a")
    received: Location = pickle.loads(pickle.dumps(child))
    assert (received, received.root) == (child, "s3://bucket/g")
