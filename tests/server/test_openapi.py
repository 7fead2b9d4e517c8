"""The OpenAPI document: it is valid, it covers every route, and documents have the members that it declares."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from openapi_spec_validator import OpenAPIV31SpecValidator

from omnigraph.server.openapi import openapi_document
from omnigraph.server.routes import ROUTES, SERVER_ROUTES


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(msgspec.to_builtins(openapi_document())).validate()


def test_every_route_is_in_it_once() -> None:
    paths = openapi_document()["paths"]
    operations = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert sorted(operations) == sorted(
        [
            *(route.operation_id for route in ROUTES),
            *(route.operation for route in SERVER_ROUTES),
            "cluster_headBlob",
            "mcp",
        ]
    )
    assert len(set(operations)) == len(operations)


def test_the_parameters_of_a_path_are_those_of_its_text() -> None:
    for path, methods in openapi_document()["paths"].items():
        for operation in methods.values():
            declared = {item["name"] for item in operation.get("parameters", ()) if item["in"] == "path"}
            assert declared == set(re.findall(r"\{(\w+)\}", path))


def test_references_exist() -> None:
    document = openapi_document()
    names = set(document["components"]["schemas"])
    assert {reference.rpartition("/")[2] for reference in _references(document)} <= names


def test_objects_without_declared_members_may_have_any() -> None:
    """A generator of clients takes an object without members for an empty one."""
    schemas = openapi_document()["components"]["schemas"]
    assert _closed(schemas) == []
    assert schemas["ReadOutput"]["properties"]["rows"]["items"]["additionalProperties"] is True


def _closed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [schema for item in value for schema in _closed(item)]
    if not isinstance(value, dict):
        return []
    is_closed = value.get("type") == "object" and not {"properties", "additionalProperties"} & value.keys()
    return [*([value] if is_closed else []), *(schema for item in value.values() for schema in _closed(item))]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        inner = set().union(*map(_references, value.values()), set())
        return inner | ({value["$ref"]} if isinstance(value.get("$ref"), str) else set())
    if isinstance(value, list):
        return set().union(*map(_references, value), set())
    return set()
