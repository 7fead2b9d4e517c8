"""The storage settings of a process: the variables with which Lance and obstore find and access an object store.

In: the environment of the caller. Out: a `StorageSettings` that is sent with each Spark task. A worker applies it;
while it is applied, the worker's own variables of this kind are removed. On this machine values are sent. To a cluster,
credentials are sent as the names of variables: the worker uses its own values, and a missing one is an error as soon as
the worker uses an object store. Settings of a host, such as its proxy, are not sent to a cluster. No value appears in a
`repr` or a message. `OMNIGRAPH_DURABILITY` is included, because Spark's Python processes parse locations for their
caller.
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
from omnigraph.base.process import change_environment

DURABILITY_VARIABLE: Final = "OMNIGRAPH_DURABILITY"

# Lance reads a variable as a setting if its lower-case name is one, also without `AWS_`
# (tests/storage/test_settings.py::test_lance_reads_variables_without_a_prefix).
# fmt: off
_UNPREFIXED: Final = frozenset([
    "access_key_id", "allow_http", "allow_invalid_certificates", "bucket", "bucket_name",
    "checksum_algorithm", "conditional_put", "connect_timeout", "container_authorization_token_file",
    "container_credentials_full_uri", "container_credentials_relative_uri", "copy_if_not_exists",
    "default_content_type", "default_region", "disable_tagging", "endpoint", "endpoint_url",
    "endpoint_url_sts", "http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle", "http2_max_frame_size", "http2_only", "imdsv1_fallback",
    "metadata_endpoint", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate",
    "proxy_excludes", "proxy_url", "randomize_addresses", "read_timeout", "region", "request_payer",
    "role_arn", "role_session_name", "s3_express", "secret_access_key", "server_side_encryption",
    "session_token", "skip_signature", "sse_bucket_key_enabled", "sse_customer_key_base64",
    "sse_kms_key_id", "timeout", "token", "unsigned_payload", "user_agent",
    "virtual_hosted_style_request", "web_identity_token_file",
])
# fmt: on
_NETWORK: Final = frozenset(["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"])
# How a host reaches the network, and paths of its own files.
_OF_HOST: Final = re.compile(r"PROXY|CA_BUNDLE|CONFIG_FILE|CREDENTIALS_FILE")
# The identity of the caller: values that must not leave this machine, or are valid only on it.
_IDENTITY: Final = re.compile(r"SECRET|TOKEN|ACCESS_KEY|CUSTOMER_KEY|PASSWORD|CONTAINER")


class VariableName(str):
    """The value of a storage option that was not sent: the name of the variable that the worker reads instead."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The settings of one caller. `names` are variables whose values are those of each host."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: tuple[str, ...] = ()
    by_name: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give this process these settings, and no others, within the block."""
        global _worker  # noqa: PLW0603  # a process has one environment
        own = {
            name: value
            for name, value in _read_variables()
            # Settings of a host are replaced only if the caller is on it.
            if _is_store_setting(name) or (not self.by_name and _is_of_host(name))
        }
        applied = {**self.values, **{name: own[name] for name in self.names if name in own}}
        outer, _worker = _worker, _Worker(self, own)
        change_environment(own, applied)
        try:
            yield
        finally:
            change_environment(applied, own)
            _worker = outer


@dataclass(frozen=True, slots=True)
class _Worker:
    """The applied settings, and the variables that this process was started with."""

    settings: StorageSettings
    own: Mapping[str, str] = field(repr=False)


_worker: _Worker | None = None
_may_send_secrets: bool = True
_replaced_secrets: Final[dict[str, str]] = {}
_settings_ids: Final[dict[tuple[tuple[str, str], ...], str]] = {}


def read_settings(*, by_name: bool) -> StorageSettings:
    """Return the settings to send: the applied ones, or else those of this process."""
    if _worker is not None:
        return _worker.settings
    variables = _read_variables()
    own = {name: value for name, value in variables if _is_store_setting(name)}
    if not by_name:
        return StorageSettings({**own, **{name: value for name, value in variables if _is_of_host(name)}})
    names = tuple(sorted(name for name in own if _IDENTITY.search(name.upper())))
    return StorageSettings({name: own[name] for name in own if name not in names}, names, by_name=True)


def allow_sending_secrets(allowed: bool) -> None:
    """Set whether secrets in storage options may be sent to Spark."""
    global _may_send_secrets  # noqa: PLW0603  # a process has one Spark session
    _may_send_secrets = allowed


def options_to_send(options: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return storage options as they may be sent: to a cluster with names of variables instead of secrets."""
    if _may_send_secrets and not (_worker is not None and _worker.settings.by_name):
        return options
    return tuple((key, _without_secret(key, value)) for key, value in options)


def require_settings(options: tuple[tuple[str, str], ...], uri: str) -> dict[str, str]:
    """Return the storage options with their values; raise if this worker lacks a variable that the caller uses."""
    if _worker is not None:
        for name in _worker.settings.names:
            if name not in _worker.own:
                raise _missing_variable(name, uri)
    return {key: _value_of(value, uri) for key, value in options}


def settings_id() -> str:
    """Return a string that is equal exactly if the settings of this process are equal: for caches of open stores."""
    settings = sorted((name, value) for name, value in _read_variables() if _is_store_setting(name))
    return _settings_ids.setdefault(tuple(settings), str(len(_settings_ids)))


def _read_variables() -> list[tuple[str, str]]:
    """Return the environment. Other threads may change it at the same time."""
    return [(name, value) for name in os.environ if (value := os.environ.get(name)) is not None]


def _is_store_setting(name: str) -> bool:
    return _is_read(name) and not _OF_HOST.search(name.upper())


def _is_of_host(name: str) -> bool:
    return name.lower() in _NETWORK or (_is_read(name) and _OF_HOST.search(name.upper()) is not None)


def _is_read(name: str) -> bool:
    """Return whether Lance or obstore reads the variable, or Omnigraph for a location."""
    return name == DURABILITY_VARIABLE or name.upper().startswith("AWS_") or name.lower() in _UNPREFIXED


def _without_secret(key: str, value: str) -> str:
    name = f"AWS_{key.upper().removeprefix('AWS_')}"
    if isinstance(value, VariableName) or not _IDENTITY.search(name):
        return value
    _replaced_secrets[name] = value  # for results that contain the location again
    return VariableName(name)


def _value_of(value: str, uri: str) -> str:
    if not isinstance(value, VariableName):
        return value
    own = os.environ if _worker is None else {**os.environ, **_worker.own}
    for variables in (_replaced_secrets, own):
        if value in variables:
            return variables[value]
    raise _missing_variable(value, uri)


def _missing_variable(name: str, uri: str) -> StorageError:
    host = socket.gethostname()
    return StorageError(
        f"variable {name} is not set on Spark worker '{host}': expected a value, as the caller has for {uri}",
        code="worker_setting_missing",
        hint=f"Set {name} in the environment of the executors on '{host}'. Secrets are not sent to a cluster.",
        facts={"variable": name, "host": host, "uri": uri},
    )
