"""Creates vectors from texts: with the caller's function, or with the provider that the environment configures.

In: texts and the number of components. Out: vectors of length 1. Errors of the caller's function are the caller's. This
package knows no graph; `engine/embedding` uses it for the texts of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.base.errors import RunError, UsageError
from omnigraph.embedding.protocols import EmbeddingBatch, RejectedText, TextPurpose
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind, read_settings

if TYPE_CHECKING:
    from omnigraph.embedding.vectors import Vector


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """Creates vectors from texts with a function, for `nearest` and `embed`."""

    embed: Callable[[str], Iterable[float]]
    """Return the vector of a text, with as many numbers as the property."""
    model: str | None = None
    """The name of the model. If the schema has `@embed(…, model="…")`, both names must be equal."""

    def query_vector(self, text: str, size: int) -> tuple[float, ...]:
        """Return the vector of a text of a query; raise if the function returns no usable one."""
        return _require_vector(call_function(self, [text], size)[0])


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
            from omnigraph.embedding.vectors import make_mock_vector

            return _require_vector(make_mock_vector(text, size))

        from omnigraph.embedding.http import HttpEmbedder

        batch = EmbeddingBatch(texts=(text,), size=size, purpose=TextPurpose.QUERY)
        [result] = HttpEmbedder(self.settings, self.environment).embed(batch)
        return _require_vector(result)


def call_function(provider: EmbeddingProvider, texts: Sequence[str], size: int) -> list[Vector | RejectedText]:
    """Return a vector or a rejection per text; raise if no vector has the right length."""
    from omnigraph.embedding.vectors import InvalidVectorError, normalize, require_length

    vectors = [tuple(map(float, provider.embed(text))) for text in texts]
    require_length(vectors, size)
    results: list[Vector | RejectedText] = []
    for vector in vectors:
        try:
            results.append(normalize(vector, size))
        except InvalidVectorError as error:
            results.append(RejectedText(f"invalid vector: {error}"))
    return results


def _require_vector(result: Vector | RejectedText) -> tuple[float, ...]:
    """Return the vector of a text of a query as numbers; raise if the text was rejected."""
    from omnigraph.embedding.vectors import no_usable_vector

    if isinstance(result, RejectedText):
        raise no_usable_vector(result.reason)
    return tuple(result.tolist())


AnyProvider = EmbeddingProvider | ConfiguredProvider


def require_provider(provider: AnyProvider | None, purpose: str) -> AnyProvider:
    """Return the provider; raise if there is none. `purpose` says what cannot be embedded without it."""
    if provider is not None:
        return provider
    raise RunError(
        f"cannot embed {purpose}: expected an embedding provider, got none",
        code="embedding_provider_missing",
        hint="Set OPENAI_API_KEY, OMNIGRAPH_EMBED_BASE_URL or OMNIGRAPH_EMBED_PROVIDER, or in Python pass an "
        "`EmbeddingProvider(…)`. A query also takes a vector.",
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
