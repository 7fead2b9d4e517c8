"""`cluster.yaml`: what should be deployed. Text in, a `ClusterConfig` and problems out. Pure.

Members are strict: an unknown one is an error, never ignored, except `state`. Every scalar is text. The files that the
configuration names are read by `resources`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import UsageError
from omnigraph.base.yaml_text import YamlNode, YamlReader, parse_yaml
from omnigraph.embedding.settings import OPENAI_KEY, EmbeddingSettings, ProviderKind, read_settings
from omnigraph.storage.location import Location, parse_location

CONFIG_FILE: Final = "cluster.yaml"
CONFIG_INVALID: Final = "invalid_cluster_yaml"
SERVER_SCOPE: Final = "cluster"
"""The scope of a policy that is about the server and not about graphs."""

GRAPH_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SECRET: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MAY_HAVE_SECRET: Final = re.compile(r"[@?#]")
_PREFIX: Final = "OMNIGRAPH_EMBED_"
_PROVIDER_TEXTS: Final = ("kind", "base_url", "model", "api_key")
_PROVIDER_KINDS: Final = ("openai", *ProviderKind)
_PROVIDER_NUMBERS: Final = (
    "timeout_ms", "deadline_ms", "retry_attempts", "retry_backoff_ms", "batch", "concurrency", "requests_per_minute",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """A path that the configuration names, and its node, for problems."""

    text: str
    node: YamlNode


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphConfig:
    """A declared graph. `queries` is one directory, or files. Only an invalid graph has no schema."""

    id: str
    schema: ConfigPath | None
    queries: tuple[ConfigPath, ...] = ()
    has_query_directory: bool = False
    embedding_provider: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """A declared policy, and the graphs or the server to which it applies. Only an invalid policy has no file."""

    name: str
    file: ConfigPath | None
    applies_to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The content of `cluster.yaml`. A provider is its members as text; the secret is only named, as `${NAME}`."""

    name: str
    storage: str | None
    providers: Mapping[str, Mapping[str, str]]
    graphs: tuple[GraphConfig, ...]
    policies: tuple[PolicyConfig, ...]


def parse_config(text: str, source: str, problems: Diagnostics) -> ClusterConfig:
    """Return the configuration. What is valid in an invalid member is kept, so that its files are checked too."""
    reader = YamlReader(CONFIG_INVALID, problems)
    root = parse_yaml(text, source, reader)
    members = reader.members(
        root, required=("version",), optional=("metadata", "storage", "providers", "graphs", "policies", "state")
    )
    version = members.get("version")
    if version is not None and version.content != "1":
        reader.problem(version, f"unsupported version: expected 1, got {version.content}")
    metadata = reader.members(members.get("metadata"), optional=("name",))
    providers = _read_providers(reader, members.get("providers"))
    graphs = _read_graphs(reader, members.get("graphs"), providers)
    return ClusterConfig(
        name=reader.text(metadata.get("name")) or "",
        storage=_read_storage(reader, members.get("storage")),
        providers=providers,
        graphs=tuple(graphs.values()),
        policies=_read_policies(reader, members.get("policies"), graphs),
    )


def parse_storage(text: str) -> str | None:
    """Return only the storage of a configuration: what is deployed can be used while other members are invalid.

    Raises:
        InvalidFilesError: The text is not valid YAML or `storage` is invalid: the root is unknown.
    """
    problems = Diagnostics()
    reader = YamlReader(CONFIG_INVALID, problems)
    root = parse_yaml(text, CONFIG_FILE, reader)
    storage = _read_storage(reader, reader.mapping(root).get("storage"))
    problems.raise_errors(f"'{CONFIG_FILE}'", "Correct the file, or pass the root of the cluster as a URI.")
    return storage


def parse_root(text: str) -> Location:
    """Return the root of a cluster. Unlike that of a graph, it may be a whole bucket."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() == "s3" and "/" not in rest.strip("/"):
        bucket = parse_location(f"{text.rstrip('/')}/graphs")
        return replace(bucket, uri=bucket.uri.removesuffix("/graphs"))
    return parse_location(text)


def provider_settings(profile: Mapping[str, str]) -> EmbeddingSettings:
    """Return the settings of a provider; raise if a value is malformed.

    The members have the meaning of the variables `OMNIGRAPH_EMBED_…`; the kind `openai` has the defaults of OpenAI.
    """
    values = {f"{_PREFIX}{name.upper()}": value for name, value in profile.items() if name in _PROVIDER_NUMBERS}
    names = {"kind": "PROVIDER", "base_url": "BASE_URL", "model": "MODEL"}
    values |= {f"{_PREFIX}{names[key]}": profile[key] for key in names if key in profile}
    if profile.get("kind") == "openai":
        values |= {f"{_PREFIX}PROVIDER": "openai-compatible", OPENAI_KEY: "set"}
    secret = _SECRET.fullmatch(profile.get("api_key", ""))
    if secret is not None:
        values[f"{_PREFIX}API_KEY_ENV"] = secret[1]
    settings = read_settings(values)
    assert settings is not None, "the kind is set"
    return settings


def _read_storage(reader: YamlReader, node: YamlNode | None) -> str | None:
    text = reader.text(node)
    if node is None or text is None:
        return None
    try:
        parse_root(text)
    except UsageError as error:
        reader.problem(node, error.message)
    return text


def _read_providers(reader: YamlReader, node: YamlNode | None) -> dict[str, Mapping[str, str]]:
    kinds = reader.members(node, optional=("embedding",))
    entries = reader.mapping(kinds.get("embedding"))
    return {name: _read_provider(reader, name, entry) for name, entry in entries.items()}


def _read_provider(reader: YamlReader, name: str, node: YamlNode) -> Mapping[str, str]:
    _check_name(reader, name, node, _NAME)
    members = reader.members(node, required=("kind",), optional=(*_PROVIDER_TEXTS[1:], *_PROVIDER_NUMBERS))
    texts = {key: reader.text(member) for key, member in members.items()}
    profile = {key: text for key, text in texts.items() if text is not None}
    if "api_key" in profile and _SECRET.fullmatch(profile["api_key"]) is None:
        # The value may be a secret: it must not appear in a message.
        reader.problem(members["api_key"], "expected the name of a variable as ${NAME}, got another value")
    if _MAY_HAVE_SECRET.search(profile.get("base_url", "")):
        reader.problem(members["base_url"], "expected an address without user, password and query: use api_key")
        del profile["base_url"]  # no other message may show it
    reasons: dict[str, YamlNode] = {}
    for key in (*_PROVIDER_NUMBERS, "base_url"):  # each alone, because the settings report only the first problem
        if key in profile:
            probe = {"kind": "mock"} if key != "base_url" else {"kind": "openai-compatible", "model": "-"}
            reasons.setdefault(_find_problem({**probe, key: profile[key]}), members[key])
    kind = profile.get("kind")
    if kind is not None and kind not in _PROVIDER_KINDS:
        advice = did_you_mean(kind, _PROVIDER_KINDS) or f": expected one of {', '.join(_PROVIDER_KINDS)}"
        reader.problem(members["kind"], f"unknown kind '{kind}'{advice}")
    elif kind is not None:
        reasons.setdefault(_find_problem({key: profile[key] for key in _PROVIDER_TEXTS if key in profile}), node)
    for reason, member in reasons.items():
        if reason:
            reader.problem(member, reason)
    return profile


def _find_problem(profile: Mapping[str, str]) -> str:
    """Return what is wrong with a provider, or nothing."""
    try:
        provider_settings(profile)
    except UsageError as error:
        return re.sub(rf"{_PREFIX}([A-Z_]+)", lambda match: match[1].lower(), error.message)
    return ""


def _read_graphs(reader: YamlReader, node: YamlNode | None, providers: Mapping[str, object]) -> dict[str, GraphConfig]:
    return {name: _read_graph(reader, name, entry, providers) for name, entry in reader.mapping(node).items()}


def _read_graph(reader: YamlReader, graph_id: str, node: YamlNode, providers: Mapping[str, object]) -> GraphConfig:
    _check_name(reader, graph_id, node, GRAPH_ID)
    if graph_id == SERVER_SCOPE:
        reader.problem(node, f"the name '{SERVER_SCOPE}' is the scope of policies of the server: choose another")
    members = reader.members(node, required=("schema",), optional=("queries", "embedding_provider"))
    schema = reader.text(members.get("schema"))
    queries = members.get("queries")
    is_directory = queries is not None and isinstance(queries.content, str)
    if queries is not None and is_directory:
        directory = reader.text(queries)
        texts = [] if directory is None else [(directory, queries)]
    else:
        texts = reader.texts(queries)
    provider = reader.text(members.get("embedding_provider"))
    if provider is not None and provider not in providers:
        reader.problem(
            members["embedding_provider"], f"unknown embedding provider '{provider}'{did_you_mean(provider, providers)}"
        )
        provider = None
    return GraphConfig(
        id=graph_id,
        schema=None if schema is None else ConfigPath(schema, members["schema"]),
        queries=tuple(ConfigPath(text, item) for text, item in texts),
        has_query_directory=is_directory,
        embedding_provider=provider,
    )


def _read_policies(reader: YamlReader, node: YamlNode | None, graphs: Mapping[str, object]) -> tuple[PolicyConfig, ...]:
    policies: list[PolicyConfig] = []
    policies_by_scope: dict[str, str] = {}
    for name, entry in reader.mapping(node).items():
        members = reader.members(entry, required=("file", "applies_to"))
        file = reader.text(members.get("file"))
        scopes = reader.texts(members.get("applies_to"))
        if "applies_to" in members and members["applies_to"].content in ("", []):
            reader.problem(members["applies_to"], "expected a list of graphs, or [cluster]")
        if len(scopes) > 1 and any(scope == SERVER_SCOPE for scope, _ in scopes):
            reader.problem(members["applies_to"], "a policy applies to graphs or to the cluster: expected one of them")
        for scope, item in scopes:
            if scope != SERVER_SCOPE and scope not in graphs:
                reader.problem(item, f"unknown graph '{scope}'{did_you_mean(scope, [*graphs, SERVER_SCOPE])}")
            elif policies_by_scope.setdefault(scope, name) != name:
                reader.problem(item, _second_policy(scope, policies_by_scope[scope]))
        _check_name(reader, name, entry, _NAME)
        path = None if file is None else ConfigPath(file, members["file"])
        policies.append(PolicyConfig(name, path, tuple(sorted({scope for scope, _ in scopes}))))
    return tuple(policies)


def _second_policy(scope: str, first: str) -> str:
    subject = "the cluster" if scope == SERVER_SCOPE else f"the graph '{scope}'"
    return f"{subject} already has the policy '{first}': expected one policy, so put the rules into one file"


def _check_name(reader: YamlReader, name: str, node: YamlNode, pattern: re.Pattern[str]) -> None:
    if pattern.fullmatch(name) is None:
        others = "letters, digits and '-'" if pattern is GRAPH_ID else "letters, digits, '-' and '_'"
        reader.problem(node, f"invalid name '{name}': expected a letter, then at most 63 {others}")
