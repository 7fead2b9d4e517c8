from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.lance.protobuf import ProtobufError, parse_fields
from omnigraph.storage.lance.transactions import TransactionRecord, parse_transaction


def test_every_field_type_is_read() -> None:
    message = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x19" + bytes(8) + b"\x25" + bytes(4) + b"\xa2\x06\x01x"
    assert list(parse_fields(message)) == [(1, 150), (2, b"abc"), (3, bytes(8)), (4, bytes(4)), (100, b"x")]


@pytest.mark.parametrize("message", [b"\x12\x05abc", b"\x08", b"\x08" + b"\xff" * 11, b"\x0b", b"\x19\x00", b"\x80"])
def test_invalid_message_is_rejected(message: bytes) -> None:
    with pytest.raises(ProtobufError):
        list(parse_fields(message))


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(message: bytes) -> None:
    try:
        record = parse_transaction(7, message)
    except (ProtobufError, UnicodeDecodeError):
        return
    assert isinstance(record, TransactionRecord)
