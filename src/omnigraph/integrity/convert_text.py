"""Raw columns to String and Blob.

Text is kept byte for byte, without normalisation, and must be UTF-8: native parsers let other bytes pass. A Blob is
`base64:` and its bytes, or bytes from a typed column; any other text would be the URI of an external blob, which is
refused.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.converted import Converted, Mistake, all_refused, mistakes_of, without
from omnigraph.integrity.raw import Column, nulls
from omnigraph.integrity.rules import Rule
from omnigraph.schema import Scalar, ScalarType, arrow_type
from omnigraph.schema.values import BASE64_PREFIX

_BLOB: Final[Any] = arrow_type(ScalarType(Scalar.BLOB))
_BASE64_MESSAGE: Final = "needs base64 with its padding after `base64:` (Blob)"
_URI_MESSAGE: Final = "needs `base64:…` (Blob); a URI outside of the graph is not allowed here"
_UNICODE_MESSAGE: Final = "needs text in UTF-8"


def split_unicode(array: Column) -> tuple[Column, tuple[Mistake, ...]]:
    """A column of text without what is not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = pc.cast(array, pa.large_binary()).to_pylist()
        bad = np.array([value is not None and not _is_unicode(value) for value in raw], dtype=np.bool_)
        mistakes = mistakes_of(Rule.NOT_UNICODE, _UNICODE_MESSAGE, bad)
        if not mistakes:
            raise  # the array itself is broken, which no row is to blame for
        return without(array, mistakes[0].rows), mistakes
    return array, ()


def convert_strings(array: Column, needed: str = "text (String)") -> Converted:
    """Text."""
    return Converted(array) if pa.types.is_string(array.type) else all_refused(array, needed, pa.utf8())


def convert_blobs(array: Column) -> Converted:
    """Bytes, in the struct that Lance stores."""
    if pa.types.is_large_binary(array.type):
        return Converted(_blob_array(array))
    if not pa.types.is_string(array.type):
        return all_refused(array, "text that starts with `base64:` (Blob)", _BLOB)
    data: list[bytes | None] = []
    bad_base64 = np.zeros(len(array), dtype=np.bool_)
    bad_uri = np.zeros(len(array), dtype=np.bool_)
    for row, text in enumerate(array.to_pylist()):
        content = None
        if text is not None and text.startswith(BASE64_PREFIX):
            content = _decoded(text)
            bad_base64[row] = content is None
        elif text is not None:
            bad_uri[row] = True
        data.append(content)
    mistakes = (
        *mistakes_of(Rule.BLOB_ENCODING, _BASE64_MESSAGE, bad_base64),
        *mistakes_of(Rule.BLOB_URI, _URI_MESSAGE, bad_uri),
    )
    return Converted(_blob_array(pa.array(data, pa.large_binary())), mistakes)


def _blob_array(data: Column) -> Column:
    uris, numbers = nulls(len(data), pa.utf8()), nulls(len(data), pa.uint64())
    return pa.StructArray.from_arrays([data, uris, numbers, numbers], fields=list(_BLOB), mask=data.is_null())


def _decoded(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text[len(BASE64_PREFIX) :].encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def _is_unicode(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
