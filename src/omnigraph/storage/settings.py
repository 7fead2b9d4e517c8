"""The storage settings of a process: the variables by which Lance and obstore find and enter an object store.

`OMNIGRAPH_DURABILITY` is one of them, because Spark's Python processes parse locations for their caller.

In: the environment of the caller. Out: a `StorageSettings` that travels with each Spark task; a worker applies it, and
while it is applied the worker's own variables of that kind do not exist. On this machine values travel. To a cluster
the credentials travel as the names of variables: the worker takes its own, and a missing one is an error once the
worker uses an object store. What belongs to a host, such as its proxy, stays there. No value is in a `repr` or message.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from omnigraph.base.errors import StorageError

# Lance takes a variable for a setting when its lower-case name is one, also without `AWS_`
# (tests/storage/test_settings.py::test_lance_reads_variables_without_a_prefix).
_UNPREFIXED: Final = frozenset(
    [
        "access_key_id",
        "allow_http",
        "allow_invalid_certificates",
        "bucket",
        "bucket_name",
        "checksum_algorithm",
        "conditional_put",
        "connect_timeout",
        "container_authorization_token_file",
        "container_credentials_full_uri",
        "container_credentials_relative_uri",
        "copy_if_not_exists",
        "default_content_type",
        "default_region",
        "disable_tagging",
        "endpoint",
        "endpoint_url",
        "endpoint_url_sts",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "imdsv1_fallback",
        "metadata_endpoint",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "region",
        "request_payer",
        "role_arn",
        "role_session_name",
        "s3_express",
        "secret_access_key",
        "server_side_encryption",
        "session_token",
        "skip_signature",
        "sse_bucket_key_enabled",
        "sse_customer_key_base64",
        "sse_kms_key_id",
        "timeout",
        "token",
        "unsigned_payload",
        "user_agent",
        "virtual_hosted_style_request",
        "web_identity_token_file",
    ]
)
_NETWORK: Final = frozenset(
    ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"]
)
# `location.DURABILITY_VARIABLE`, which cannot be imported here.
_DURABILITY: Final = "OMNIGRAPH_DURABILITY"
# How a host reaches the network, and its own files.
_OF_HOST: Final = re.compile(r"PROXY|CA_BUNDLE|CONFIG_FILE|CREDENTIALS_FILE")
# Who the caller is: what must not leave this machine, or is only valid on it.
_IDENTITY: Final = re.compile(r"SECRET|TOKEN|ACCESS_KEY|CUSTOMER_KEY|PASSWORD|CONTAINER")


class VariableName(str):
    """The value of a storage option that did not travel: the name of the variable that the worker takes instead."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The settings of one caller. `names` are variables whose values stay with each host."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: tuple[str, ...] = ()
    by_name: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block, this process has these settings and no others."""
        global _worker  # noqa: PLW0603  # the environment is one for the process, too
        own = {name: value for name, value in _variables() if self._covers(name)}
        chosen = {**self.values, **{name: own[name] for name in self.names if name in own}}
        outer, _worker = _worker, _Worker(self, own)
        _change_environment(own, chosen)
        try:
            yield
        finally:
            _change_environment(chosen, own)
            _worker = outer

    def _covers(self, name: str) -> bool:
        """What belongs to a host is the caller's only when it is on the same one."""
        return _is_store_setting(name) or (not self.by_name and _is_of_host(name))


@dataclass(frozen=True, slots=True)
class _Worker:
    """The settings that are applied, and the variables that this process itself was started with."""

    settings: StorageSettings
    own: Mapping[str, str] = field(repr=False)


_worker: _Worker | None = None
_secrets_travel: bool = True
_replaced: Final[dict[str, str]] = {}
_numbers: Final[dict[tuple[tuple[str, str], ...], str]] = {}


def read_settings(*, by_name: bool) -> StorageSettings:
    """The settings to send: those that were applied here, or those of this process."""
    if _worker is not None:
        return _worker.settings
    mine = {name: value for name, value in _variables() if _is_store_setting(name)}
    if not by_name:
        return StorageSettings({**mine, **{name: value for name, value in _variables() if _is_of_host(name)}})
    names = tuple(sorted(name for name in mine if _IDENTITY.search(name.upper())))
    return StorageSettings({name: mine[name] for name in mine if name not in names}, names, by_name=True)


def send_secrets(allowed: bool) -> None:
    """Say whether the secrets in storage options may leave this process with what is sent to Spark."""
    global _secrets_travel  # noqa: PLW0603  # a process has one Spark session
    _secrets_travel = allowed


def options_to_send(options: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Storage options as they may travel: to a cluster with the names of variables in the place of secrets."""
    if _secrets_travel and not (_worker is not None and _worker.settings.by_name):
        return options
    return tuple((key, _variable_of(key, value)) for key, value in options)


def require_settings(options: tuple[tuple[str, str], ...], uri: str) -> dict[str, str]:
    """The storage options with their values; raise when this worker lacks a variable that the caller uses."""
    if _worker is not None:
        for name in _worker.settings.names:
            if name not in _worker.own:
                raise _missing(name, uri)
    return {key: _value_of(value, uri) for key, value in options}


def settings_number() -> str:
    """A text that is equal exactly when the settings of this process are: for caches of open stores."""
    found = sorted((name, value) for name, value in _variables() if _is_store_setting(name))
    return _numbers.setdefault(tuple(found), str(len(_numbers)))


def _variables() -> list[tuple[str, str]]:
    """Other threads may change them at the same time."""
    return [(name, value) for name in os.environ if (value := os.environ.get(name)) is not None]


def _is_store_setting(name: str) -> bool:
    return _is_read(name) and not _OF_HOST.search(name.upper())


def _is_of_host(name: str) -> bool:
    return name.lower() in _NETWORK or (_is_read(name) and _OF_HOST.search(name.upper()) is not None)


def _is_read(name: str) -> bool:
    """Whether Lance or obstore reads the variable, or Omnigraph for a location."""
    return name == _DURABILITY or name.upper().startswith("AWS_") or name.lower() in _UNPREFIXED


def _variable_of(key: str, value: str) -> str:
    name = f"AWS_{key.upper().removeprefix('AWS_')}"
    if isinstance(value, VariableName) or not _IDENTITY.search(name):
        return value
    _replaced[name] = value  # for answers that bring the location back
    return VariableName(name)


def _value_of(value: str, uri: str) -> str:
    if not isinstance(value, VariableName):
        return value
    own = os.environ if _worker is None else {**os.environ, **_worker.own}
    for variables in (_replaced, own):
        if value in variables:
            return variables[value]
    raise _missing(value, uri)


def _missing(name: str, uri: str) -> StorageError:
    host = socket.gethostname()
    return StorageError(
        f"variable {name} is missing on Spark worker '{host}': expected a value, as the caller has for {uri}",
        code="worker_setting_missing",
        hint=f"Set {name} in the environment of the executors on '{host}'. Secrets are not sent to a cluster.",
        facts={"variable": name, "host": host, "uri": uri},
    )


def _change_environment(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Only what differs, because native threads may be reading."""
    os.environ.update({name: value for name, value in after.items() if before.get(name) != value})
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)
