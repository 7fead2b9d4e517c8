"""Checks a response against the OpenAPI document: its status, its content type and its body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from omnigraph.server.openapi import openapi_document


def check_response(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Fail if a response differs from the document. An address or a method that it lacks must be an error."""
    operation = _find_operation("GET" if method == "HEAD" else method, urlsplit(path).path)
    if operation is None:
        assert status in {200, 304, 404, 405}, (method, path, status)
        if status not in {200, 304}:
            _check_schema("#/components/schemas/ErrorOutput", json.loads(body), path)
        return
    responses = operation["responses"]
    assert str(status) in responses, f"{method} {path} returned {status}, which is not in the document"
    contents = responses[str(status)].get("content")
    if method == "HEAD" or contents is None:
        return
    kind = headers.get("content-type", "").partition(";")[0]
    assert kind in contents, f"{method} {path} returned {kind}, expected one of {list(contents)}"
    if kind == "application/json" and "$ref" in contents[kind]["schema"]:
        _check_schema(contents[kind]["schema"]["$ref"], json.loads(body), path)


def _find_operation(method: str, path: str) -> dict[str, Any] | None:
    for pattern, methods in _patterns():
        if pattern.fullmatch(path) and method.lower() in methods:
            return dict(methods[method.lower()])
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Return the paths of the document as patterns; those without parameters are first."""
    paths = sorted(openapi_document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [(re.compile(_pattern(path)), methods) for path, methods in paths]


def _pattern(path: str) -> str:
    return re.sub(r"\\{(\w+)\\}", lambda name: ".+" if name[1] == "branch" else "[^/]+", re.escape(path))


def _check_schema(reference: str, document: Any, path: str) -> None:
    errors = [f"{error.json_path}: {error.message}" for error in _validator(reference).iter_errors(document)]
    assert not errors, (path, errors[:5])


@cache
def _validator(reference: str) -> Draft202012Validator:
    resource = Resource.from_contents(json.loads(json.dumps(openapi_document())), DRAFT202012)
    registry: Any = Registry().with_resource("omnigraph:openapi", resource)
    return Draft202012Validator({"$ref": f"omnigraph:openapi{reference}"}, registry=registry)
