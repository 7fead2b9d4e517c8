"""Tables for people: separators, sizes and totals, which other formats do not have."""

from __future__ import annotations

import pytest

from omnigraph.base.display import format_bytes
from omnigraph.cli.output import Count, Number, Row, RowsFormat, Size, write_rows

TITLES = {"table": "table", "rows": "rows", "bytes": "size", "version": "version"}
ROWS: list[Row] = [
    {"table": "a", "rows": Count(1_200), "bytes": Size(2_048), "version": Number(1_000)},
    {"table": "b", "rows": Count(3), "bytes": Size(812), "version": Number(7)},
]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_500, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (5 * 1024**3 // 2, "2.5 GiB"),
        (3 * 1024**6, "3,072.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("rows", "rows_format", "text"),
    [
        (
            ROWS,
            RowsFormat.TABLE,
            "table   rows     size  version\n"
            "a      1,200  2.0 KiB    1,000\n"
            "b          3    812 B        7\n"
            "total  1,203  2.8 KiB\n",
        ),
        (ROWS[:1], RowsFormat.TABLE, "table   rows     size  version\na      1,200  2.0 KiB    1,000\n"),
        (
            [{**row, "rows": Count(0), "bytes": Size(0)} for row in ROWS],
            RowsFormat.TABLE,
            "table  rows  size  version\na         0   0 B    1,000\nb         0   0 B        7\n",
        ),
        (ROWS, RowsFormat.CSV, "table,rows,bytes,version\na,1200,2048,1000\nb,3,812,7\n"),
        (ROWS[:1], RowsFormat.JSONL, '{"table": "a", "rows": 1200, "bytes": 2048, "version": 1000}\n'),
        (ROWS[:1], RowsFormat.KV, "table: a\nrows: 1200\nbytes: 2048\nversion: 1000\n"),
    ],
)
def test_formats(rows: list[Row], rows_format: RowsFormat, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(TITLES, rows, rows_format)
    assert capsys.readouterr().out == text
