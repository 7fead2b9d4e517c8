"""The resources that a configuration declares: read from its files, checked, and named by the digests of their content.

In: a directory with `cluster.yaml`. Out: a `DesiredState`, and every problem of all files in one run. Nothing here
reads the ledger or a graph. Secrets are never read: a provider only names the variable of its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.authorization import AccessAction
from omnigraph.base.decoding import decode_json
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import format_count
from omnigraph.base.errors import Problem, QueryTextError, SchemaTextError
from omnigraph.cluster.config import (
    CONFIG_FILE,
    CONFIG_INVALID,
    SERVER_SCOPE,
    ClusterConfig,
    ConfigPath,
    GraphConfig,
    PolicyConfig,
    parse_config,
)
from omnigraph.policy.bundle import Bundle, BundleKind, CedarText, parse_bundle
from omnigraph.policy.cedar import compile_bundle
from omnigraph.query.lint import lint_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.wire.cluster import DependencyOutput, ResourceOutput

FILE_INVALID: Final = "cluster_file"
QUERY_REPEATED: Final = "query_name_repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A declared resource. `content` is the text of a schema, or what is stored for a query or a policy."""

    address: str
    kind: str
    digest: str
    path: str | None = None
    content: bytes = field(default=b"", repr=False)
    applies_to: tuple[str, ...] = ()
    embedding_provider: str | None = None
    embedding_profile: Mapping[str, str] | None = None

    @property
    def graph(self) -> str | None:
        """The graph that it belongs to; None for a policy or a provider."""
        return graph_of(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What the files declare: the resources by address, and the digest of all of it."""

    config: ClusterConfig
    resources: Mapping[str, Resource]
    config_digest: str

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The declared graphs, sorted."""
        return tuple(sorted(graph.id for graph in self.config.graphs))


class StoredPolicy(msgspec.Struct, frozen=True):
    """A policy as it is stored: the YAML text and the Cedar files that it names."""

    source: str
    text: str
    cedar: dict[str, str] = {}
    version: int = 1


def graph_of(address: str) -> str | None:
    """Return the graph of an address; None for a policy or a provider."""
    kind, _, rest = address.partition(".")
    return rest.partition(".")[0] if kind in ("graph", "schema", "query") else None


def stored_path(address: str, digest: str) -> str | None:
    """Return where the content of a resource is stored; None for a kind that is not stored by itself."""
    match address.split("."):
        case ["query", graph, name]:
            return f"__cluster/resources/query/{graph}/{name}/{digest}.gq"
        case ["policy", name]:
            return f"__cluster/resources/policy/{name}/{digest}.json"
        case _:
            return None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes as text."""
    return hashlib.sha256(content).hexdigest()


def canonical_json(document: Any) -> bytes:
    """Return JSON with sorted members."""
    return msgspec.json.encode(document, order="sorted")


def graph_digest(graph_id: str, schema: str, queries: Mapping[str, str], provider: tuple[str, str] | None) -> str:
    """Return the digest of a graph: of its schema, its queries and its provider."""
    return digest_of(canonical_json({"id": graph_id, "schema": schema, "queries": queries, "provider": provider}))


def read_desired(directory: Path, problems: Diagnostics) -> DesiredState | None:
    """Return what the files of a directory declare; None, with all problems, if one of them is invalid."""
    files = ConfigFiles(directory, problems)
    try:
        config = parse_config(files.read(CONFIG_FILE), CONFIG_FILE, problems)
    except OSError as error:
        problems.error(CONFIG_INVALID, CONFIG_FILE, None, f"the file {error.strerror}")
        return None
    reader = _ResourceReader(files, problems, frozenset(graph.id for graph in config.graphs))
    for name, profile in sorted(config.providers.items()):
        reader.add_provider(name, profile)
    for graph in config.graphs:
        reader.add_graph(graph)
    for policy in config.policies:
        reader.add_policy(policy)
    if problems.has_errors:
        return None
    resources = dict(sorted(reader.resources.items()))
    digests = {
        address: [item.digest, list(item.applies_to), item.embedding_provider] for address, item in resources.items()
    }
    digest = digest_of(canonical_json({"name": config.name, "storage": config.storage, "resources": digests}))
    return DesiredState(config=config, resources=resources, config_digest=digest)


def resource_outputs(desired: DesiredState) -> list[ResourceOutput]:
    """Return the document of each resource, by address."""
    return [
        ResourceOutput(address=item.address, kind=item.kind, digest=item.digest, path=item.path)
        for item in desired.resources.values()
    ]


def dependencies(desired: DesiredState) -> list[DependencyOutput]:
    """Return which resource needs which other one."""
    pairs: list[tuple[str, str]] = []
    for item in desired.resources.values():
        if item.kind == "graph":
            pairs.append((item.address, f"schema.{item.graph}"))
        if item.kind == "query":
            pairs.append((item.address, f"schema.{item.graph}"))
        if item.embedding_provider is not None:
            pairs.append((item.address, item.embedding_provider))
        pairs += [(item.address, f"graph.{scope}") for scope in item.applies_to if scope != SERVER_SCOPE]
    return [DependencyOutput(source=source, target=target) for source, target in sorted(pairs)]


class ConfigFiles:
    """The files of a configuration: relative, without symbolic links, and limited in number and size."""

    def __init__(self, directory: Path, problems: Diagnostics) -> None:
        self._directory = directory
        self._problems = problems
        self._contents: dict[str, bytes] = {}
        self._bytes = 0

    def read(self, name: str) -> str:
        """Return the text of a file; raise OSError with the reason if it cannot be used."""
        if name not in self._contents:
            self._contents[name] = self._read(name)
        try:
            return self._contents[name].decode("utf-8-sig" if name == CONFIG_FILE else "utf-8")
        except UnicodeDecodeError:
            raise OSError(0, "is not UTF-8 text") from None

    def read_named(self, path: ConfigPath, name: str | None = None) -> str | None:
        """Return the text of a file that the configuration names; None, with a problem, if it cannot be used."""
        try:
            return self.read(name or path.text)
        except OSError as error:
            self._report(path, f"the file '{name or path.text}' {error.strerror}")
            return None

    def list_queries(self, path: ConfigPath) -> Sequence[str]:
        """Return the `.gq` files of a directory, without its subdirectories."""
        reason = self._path_problem(path.text)
        directory = self._directory / path.text
        if reason is None and not directory.is_dir():
            reason = "is not a directory" if directory.exists() else "does not exist"
        if reason is not None:
            self._report(path, f"'{path.text}' {reason}: expected a directory, or a list of files")
            return ()
        names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(".gq"))
        return [str(PurePosixPath(path.text) / name) for name in names]

    def _read(self, name: str) -> bytes:
        reason = self._path_problem(name)
        if reason is not None:
            raise OSError(0, reason)
        try:
            with (self._directory / name).open("rb") as file:
                data = file.read(limits.CLUSTER_FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            raise OSError(0, "does not exist") from None
        except (OSError, ValueError) as error:
            raise OSError(0, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
        self._bytes += len(data)
        if len(data) > limits.CLUSTER_FILE_BYTES_MAX:
            raise OSError(0, f"is too large: expected at most {limits.CLUSTER_FILE_BYTES_MAX:,} bytes")
        if self._bytes > limits.CLUSTER_BYTES_MAX:
            raise OSError(0, f"exceeds a limit: expected at most {limits.CLUSTER_BYTES_MAX:,} bytes in all files")
        if len(self._contents) >= limits.CLUSTER_FILES_MAX:
            raise OSError(0, f"exceeds a limit: expected at most {format_count(limits.CLUSTER_FILES_MAX, 'file')}")
        return data

    def _path_problem(self, name: str) -> str | None:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name:
            return f"is outside of the directory of {CONFIG_FILE}"
        parts = [self._directory.joinpath(*path.parts[:count]) for count in range(1, len(path.parts) + 1)]
        return "is a symbolic link, or in one" if any(part.is_symlink() for part in parts) else None

    def _report(self, path: ConfigPath, message: str) -> None:
        self._problems.error(FILE_INVALID, path.node.file, path.node.line, f"{path.node.path}: {message}")


@dataclass(frozen=True, slots=True)
class _ResourceReader:
    files: ConfigFiles
    problems: Diagnostics
    graph_ids: frozenset[str]
    resources: dict[str, Resource] = field(default_factory=dict)

    def add_provider(self, name: str, profile: Mapping[str, str]) -> None:
        address = f"provider.embedding.{name}"
        digest = digest_of(canonical_json(profile))
        self._add(Resource(address=address, kind="provider", digest=digest, embedding_profile=profile))

    def add_graph(self, graph: GraphConfig) -> None:
        text = None if graph.schema is None else self.files.read_named(graph.schema)
        path = None if graph.schema is None else graph.schema.text
        catalog = None if text is None or path is None else self._build_catalog(text, path)
        queries = dict(self._read_queries(graph, catalog))
        if text is None or catalog is None:
            return
        schema_digest = digest_of(text.encode())
        self._add(
            Resource(
                address=f"schema.{graph.id}", kind="schema", digest=schema_digest, path=path, content=text.encode()
            )
        )
        for item in queries.values():
            self._add(item)
        provider = None if graph.embedding_provider is None else f"provider.embedding.{graph.embedding_provider}"
        bound = None if provider is None else (provider, self.resources[provider].digest)
        digests = {name: item.digest for name, item in queries.items()}
        digest = graph_digest(graph.id, schema_digest, digests, bound)
        self._add(Resource(address=f"graph.{graph.id}", kind="graph", digest=digest, embedding_provider=provider))

    def add_policy(self, policy: PolicyConfig) -> None:
        file = policy.file
        text = None if file is None else self.files.read_named(file)
        if file is None or text is None:
            return
        bundle = parse_bundle(text, file.text, lambda name: self._read_cedar(file, name), self.problems)
        if bundle is None:
            return
        self._check_scopes(policy.applies_to, file, bundle)
        # The same problems for every scope.
        compile_bundle(bundle, next(iter(policy.applies_to), ""), self.problems, self.graph_ids)
        stored = StoredPolicy(file.text, text, {cedar.name: cedar.text for cedar in bundle.cedar})
        content = canonical_json(stored)
        self._add(
            Resource(
                address=f"policy.{policy.name}",
                kind="policy",
                digest=digest_of(content),
                path=file.text,
                content=content,
                applies_to=policy.applies_to,
            )
        )

    def _add(self, resource: Resource) -> None:
        self.resources[resource.address] = resource

    def _build_catalog(self, text: str, source: str) -> Catalog | None:
        try:
            return build_catalog(parse_schema(text, source))
        except SchemaTextError as error:
            self._report(error.problems)
            return None

    def _read_queries(self, graph: GraphConfig, catalog: Catalog | None) -> Iterator[tuple[str, Resource]]:
        """Return the queries by name. Without a valid schema, only their syntax and names are checked."""
        sources: dict[str, str] = {}
        for path in graph.queries:
            names = self.files.list_queries(path) if graph.has_query_directory else [path.text]
            for name in names:
                text = self.files.read_named(path, name)
                for query, line in () if text is None else self._check_queries(name, text, catalog):
                    first = sources.setdefault(query, name)
                    if first != name:
                        message = f"duplicate query '{query}' of graph '{graph.id}': the first one is in '{first}'"
                        self.problems.error(QUERY_REPEATED, name, line, message)
                        continue
                    content = (text or "").encode()
                    address = f"query.{graph.id}.{query}"
                    digest = digest_of(content)
                    yield query, Resource(address=address, kind="query", digest=digest, path=name, content=content)

    def _check_queries(self, source: str, text: str, catalog: Catalog | None) -> list[tuple[str, int]]:
        """Return the names of the queries of a file, with their lines."""
        try:
            queries = parse_queries(text, source).queries
        except QueryTextError as error:
            self._report(error.problems)
            return []
        if catalog is not None:
            self._report(lint_queries([(source, text)], catalog).errors)
        return [(query.name.text, query.name.span.line) for query in queries]

    def _read_cedar(self, policy: ConfigPath, name: str) -> str:
        try:
            return self.files.read(str(PurePosixPath(policy.text).parent / name))
        except OSError as error:
            raise OSError(0, f"it {error.strerror}") from error

    def _check_scopes(self, scopes: Sequence[str], file: ConfigPath, bundle: Bundle) -> None:
        for scope in scopes:
            expected = BundleKind.SERVER if scope == SERVER_SCOPE else BundleKind.GRAPH
            if bundle.kind not in (expected, None):
                subject = f"the server ({AccessAction.GRAPH_LIST})" if expected is BundleKind.SERVER else "graphs"
                actual = "the server" if bundle.kind is BundleKind.SERVER else "graphs"
                message = f"the policy applies to '{scope}': expected rules about {subject}, got rules about {actual}"
                self.problems.error(CONFIG_INVALID, file.node.file, file.node.line, message)

    def _report(self, items: Sequence[Problem]) -> None:
        for item in items:
            self.problems.error(item.code, item.source, item.line, item.message)


def parse_stored_policy(content: bytes, problems: Diagnostics) -> Bundle | None:
    """Return the bundle of a stored policy; None, with problems, if it is invalid."""
    stored = decode_json(content, StoredPolicy)
    texts = [CedarText(name, text) for name, text in stored.cedar.items()]
    return parse_bundle(stored.text, stored.source, {cedar.name: cedar.text for cedar in texts}.__getitem__, problems)
