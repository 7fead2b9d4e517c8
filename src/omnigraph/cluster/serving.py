"""What a deployed cluster serves: policies and stored queries, read from the ledger and its stored resources.

In: a ledger. Out: compiled policies and the texts of queries, each verified by its digest; a missing or altered one
raises. A server, `apply` and data writes through a cluster get the same values here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from omnigraph.base.authorization import Authority
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import Fact, FormatError, NotFoundError
from omnigraph.cluster.config import provider_settings
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.cluster.resources import digest_of, parse_stored_policy, stored_path
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.policy.cedar import CompiledPolicy, compile_bundle
from omnigraph.policy.gate import PolicyGate


class AppliedGate:
    """The gate of a graph of a cluster. The policy is read when it is first asked, and once: maintenance needs none."""

    def __init__(self, store: LedgerStore, ledger: Ledger, graph_id: str) -> None:
        self._read_policy = partial(read_policy_of, store, ledger, graph_id)

    @cached_property
    def _policy(self) -> CompiledPolicy | None:
        return self._read_policy()

    def check(self, authority: Authority, actor: str | None) -> None:
        """Raise `AccessDeniedError` unless the deployed policy of the graph allows it; without one, allow it."""
        if self._policy is not None:
            PolicyGate(self._policy).check(authority, actor)


def read_policy_of(store: LedgerStore, ledger: Ledger, scope: str) -> CompiledPolicy | None:
    """Return the deployed policy of a graph or of the server, or None if it has none; raise if it has two."""
    addresses = [
        address
        for address, resource in ledger.resources.items()
        if address.startswith("policy.") and scope in (resource.applies_to or ())
    ]
    if not addresses:
        return None
    if len(addresses) > 1:  # neither may decide alone: one of them could allow what the other one must forbid
        raise FormatError(
            f"several deployed policies apply to '{scope}': expected one, got {', '.join(addresses)}",
            code="policy_repeated",
            hint="Nothing was allowed. Run `omnigraph cluster apply` with the files of the cluster.",
            facts={"scope": scope, "policies": list[Fact](addresses)},
        )
    problems = Diagnostics()
    bundle = parse_stored_policy(read_resource(store, ledger, addresses[0]), problems)
    policy = None if bundle is None else compile_bundle(bundle, scope, problems)
    problems.raise_errors(f"the deployed policy '{addresses[0]}'", "Correct its file, then run `cluster apply`.")
    return policy


def read_stored_query(store: LedgerStore, ledger: Ledger, graph_id: str, name: str) -> str:
    """Return the text of the file that declares a deployed query; raise with the names of the deployed ones."""
    address = f"query.{graph_id}.{name}"
    if address not in ledger.resources:
        names = stored_queries(ledger, graph_id)
        raise NotFoundError(
            f"the graph '{graph_id}' has no stored query '{name}'{did_you_mean(name, names)}",
            code="query_not_stored",
            hint=f"Stored are {', '.join(names)}." if names else "Declare `queries` of the graph in `cluster.yaml`.",
            facts={"graph": graph_id, "query": name, "queries": list(names)},
        )
    return read_resource(store, ledger, address).decode()


def stored_queries(ledger: Ledger, graph_id: str) -> tuple[str, ...]:
    """Return the names of the deployed queries of a graph, sorted."""
    prefix = f"query.{graph_id}."
    return tuple(sorted(address.removeprefix(prefix) for address in ledger.resources if address.startswith(prefix)))


def find_applied_provider(ledger: Ledger, graph_id: str, environment: Mapping[str, str]) -> ConfiguredProvider | None:
    """Return the deployed embedding provider of a graph, or None. Its key is a variable of the environment."""
    address = ledger.resources[f"graph.{graph_id}"].embedding_provider
    if address is not None and address not in ledger.resources:
        raise FormatError(
            f"the embedding provider of graph '{graph_id}' is not deployed: '{address}'",
            code="resource_damaged",
            hint="Declare the provider in `cluster.yaml`, then run `omnigraph cluster apply`.",
            facts={"address": address},
        )
    profile = None if address is None else ledger.resources[address].embedding_profile
    return None if profile is None else ConfiguredProvider(provider_settings(profile), environment)


def read_resource(store: LedgerStore, ledger: Ledger, address: str) -> bytes:
    """Return the stored content of a deployed resource; raise if it is missing or altered."""
    digest = ledger.resources[address].digest
    path = stored_path(address, digest)
    assert path is not None, f"{address} has no stored content"
    content = store.objects.read(path)
    if content is None or digest_of(content) != digest:
        problem = "is missing" if content is None else "does not match its digest"
        raise FormatError(
            f"the stored resource '{address}' {problem}: '{path}'",
            code="resource_damaged",
            hint="Run `omnigraph cluster apply` with the files of the cluster: it stores the resource again.",
            facts={"address": address, "path": path},
        )
    return content
