"""Creates vectors from texts: with the caller's function, or with the provider that the environment configures.

In: texts and the number of components. Out: vectors of length 1. Errors of the caller's function are the caller's. This
package knows no graph; `engine/embedding` uses it for the texts of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.base.errors import RunError
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
        from omnigraph.embedding.normalize import InvalidVectorError, normalize

        values = tuple(map(float, self.embed(text)))
        try:
            return normalize(values, size)
        except InvalidVectorError as error:
            raise _malformed(str(error)) from error


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

        from omnigraph.embedding.http import HttpEmbedder, RejectedText
        from omnigraph.embedding.kinds.request import EmbeddingBatch, TextPurpose

        batch = EmbeddingBatch(texts=(text,), size=size, purpose=TextPurpose.QUERY)
        [result] = HttpEmbedder(settings=self.settings, environment=self.environment).embed(batch)
        if isinstance(result, RejectedText):
            raise _malformed(result.reason)
        return result


def find_provider(environment: Mapping[str, str]) -> ConfiguredProvider | None:
    """Return the provider that the environment configures, or None."""
    settings = read_settings(environment)
    return None if settings is None else ConfiguredProvider(settings, environment)


def _malformed(reason: str) -> RunError:
    return RunError(
        f"no usable vector from the embedding provider: {reason}",
        code="embedding_malformed",
        hint="Use the provider and the model that created the vectors of the graph.",
    )
