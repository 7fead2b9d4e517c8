"""Creates vectors from texts: with the caller's function, or with the provider that the environment configures.

In: texts and the number of components. Out: vectors of length 1. Errors of the caller's function are the caller's. This
package knows no graph; `engine/embedding` uses it for the texts of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import RunError, UsageError
from omnigraph.embedding.kinds.request import RejectedText, RequestCount
from omnigraph.embedding.pace import PacedClock, RequestPace
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind, read_settings


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """Creates vectors from the text arguments of `nearest`."""

    embed: Callable[[str], Sequence[float]]
    """Return the vector of a text, with as many numbers as the property."""
    model: str | None = None
    """The name of the model. If the schema has `@embed(…, model="…")`, both names must be equal."""

    def query_vector(self, text: str, size: int) -> tuple[float, ...]:
        """Return the vector of a text of a query; raise if the function returns no usable one."""
        from omnigraph.embedding.normalize import InvalidVectorError, no_usable_vector, normalize

        values = tuple(map(float, self.embed(text)))
        try:
            return normalize(values, size)
        except InvalidVectorError as error:
            raise no_usable_vector(str(error)) from error


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """The provider of settings."""

    settings: EmbeddingSettings
    environment: Mapping[str, str]

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.settings.model

    def query_vector(self, text: str, size: int) -> tuple[float, ...]:
        """Return the vector of a text of a query; raise if the provider fails or rejects the text."""
        if self.settings.kind is ProviderKind.MOCK:
            from omnigraph.embedding.kinds.mock import make_mock_vector

            return make_mock_vector(text, size)

        from omnigraph.embedding.http import HttpEmbedder
        from omnigraph.embedding.kinds.request import EmbeddingBatch, TextPurpose
        from omnigraph.embedding.normalize import no_usable_vector

        batch = EmbeddingBatch(texts=(text,), size=size, purpose=TextPurpose.QUERY)
        [result] = HttpEmbedder(settings=self.settings, environment=self.environment).embed(batch)
        if isinstance(result, RejectedText):
            raise no_usable_vector(result.reason)
        return result


AnyProvider = EmbeddingProvider | ConfiguredProvider


class TextEmbedder(Protocol):
    """Creates the vectors of stored texts, and counts the requests."""

    @property
    def count(self) -> RequestCount: ...

    def embed_documents(self, texts: tuple[str, ...], size: int) -> Sequence[tuple[float, ...] | RejectedText]:
        """Return a vector or a rejection per text; raise if the provider cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """Creates mock vectors, without requests."""

    count: RequestCount = field(default_factory=RequestCount)

    def embed_documents(self, texts: tuple[str, ...], size: int) -> Sequence[tuple[float, ...] | RejectedText]:
        from omnigraph.embedding.kinds.mock import make_mock_vector

        return [make_mock_vector(text, size) for text in texts]


@dataclass(frozen=True, slots=True)
class FunctionEmbedder:
    """Creates vectors with the caller's function. A vector that is not usable rejects its text."""

    provider: EmbeddingProvider
    count: RequestCount = field(default_factory=RequestCount)

    def embed_documents(self, texts: tuple[str, ...], size: int) -> Sequence[tuple[float, ...] | RejectedText]:
        from omnigraph.embedding.normalize import InvalidVectorError, normalize

        results: list[tuple[float, ...] | RejectedText] = []
        for text in texts:
            self.count.requests += 1
            try:
                results.append(normalize(tuple(map(float, self.provider.embed(text))), size))
            except InvalidVectorError as error:
                results.append(RejectedText(f"invalid vector: {error}"))
        return results


def make_embedder(
    settings: EmbeddingSettings,
    environment: Mapping[str, str],
    pace: RequestPace | None = None,
    before_request: Callable[[], None] = lambda: None,
) -> TextEmbedder:
    """Return the provider of settings for stored texts. It is used by one thread.

    `before_request` raises if no other request may be sent.
    """
    if settings.kind is ProviderKind.MOCK:
        return MockEmbedder()
    from omnigraph.embedding.http import HttpEmbedder

    paced = None if pace is None else PacedClock(pace, SYSTEM_CLOCK)
    return HttpEmbedder(settings=settings, environment=environment, pace=paced, before_request=before_request)


def require_provider(provider: AnyProvider | None, purpose: str) -> AnyProvider:
    """Return the provider; raise if there is none. `purpose` says what cannot be embedded without it."""
    if provider is not None:
        return provider
    raise RunError(
        f"cannot embed {purpose}: expected an embedding provider, got none",
        code="embedding_provider_missing",
        hint="Set OMNIGRAPH_EMBED_PROVIDER, or in Python pass an `EmbeddingProvider(…)`. A query also takes a vector.",
    )


def require_model(provider: AnyProvider, model: str | None) -> None:
    """Raise if the schema names a model and the provider has another one."""
    if model is None or provider.model == model:
        return
    raise UsageError(
        f"embedding model differs: expected '{model}', got "
        + (f"'{provider.model}'" if provider.model else "a provider without a model name"),
        code="embedding_model_differs",
        hint=f"Use a provider with the model '{model}'; vectors of two models cannot be compared.",
        facts={"expected": model, "actual": provider.model},
    )


def find_provider(environment: Mapping[str, str]) -> ConfiguredProvider | None:
    """Return the provider that the environment configures, or None."""
    settings = read_settings(environment)
    return None if settings is None else ConfiguredProvider(settings, environment)
