"""CSV files of one type: the meaning of each field, errors, and their lines."""

from __future__ import annotations

import codecs
import gzip
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.integrity.check import check_batch
from omnigraph.pipeline.load.inputs.csv_rows import plan_csv_pieces
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.run import LoadRejectedError
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.in_place import contents, files, load_here, violations, written

SCHEMA = """\
node Thing {
  slug: String @key
  small: I32?  big: I64?  huge: U64?  ratio: F64?  narrow: F32?  yes: Bool?
  day: Date?  at: DateTime?  kind: enum(a, b)?  data: Blob?
  tags: [String]?  numbers: [I32]?  v: Vector(2)?
}
edge Next: Thing -> Thing { weight: F64 }
"""


@pytest.fixture
def root(local_location: Location) -> Location:
    og.init(local_location.uri, SCHEMA)
    return local_location


def thing(root: Location, tmp_path: Path, header: str, row: str) -> dict[str, object]:
    load_here(root, written(tmp_path, "things.csv", f"slug,{header}\nx,{row}\n"), "Thing")
    (stored,) = contents(root)["node:Thing"]
    return {name: value for name, value in stored.items() if name not in ("id", "slug") and value is not None}


GOOD = {
    ("small,big,huge", f"-5,{-(2**63)},{2**64 - 1}"): {"small": -5, "big": -(2**63), "huge": 2**64 - 1},
    ("ratio,narrow", "0.1,-1e-3"): {"ratio": 0.1, "narrow": pytest.approx(-1e-3)},
    ("ratio", "12"): {"ratio": 12.0},
    ("yes", "TRUE"): {"yes": True},
    ("yes", "false"): {"yes": False},
    ("day,at", "2024-05-31,2024-05-31T12:00:00+02:00"): {
        "day": date(2024, 5, 31),
        "at": datetime(2024, 5, 31, 10, tzinfo=UTC),
    },
    ("kind,tags", 'a,"[""x,y"", """"]"'): {"kind": "a", "tags": ["x,y", ""]},
    ("numbers,v", '[],"[0.5, 2]"'): {"numbers": [], "v": [0.5, 2.0]},
    ("small,ratio,yes,day,kind,tags,v", ",,,,,,"): {},
}


@pytest.mark.parametrize("line", GOOD)
def test_a_field_is_read_by_the_type_of_its_property(root: Location, tmp_path: Path, line: tuple[str, str]) -> None:
    assert thing(root, tmp_path, *line) == GOOD[line]


BAD = {
    ("small", "5.0"): ("V103", "5.0"),
    ("small", "+5"): ("V103", "+5"),
    ("small", '" 5"'): ("V103", '" 5"'),
    ("small", str(2**31)): ("V104", str(2**31)),
    ("huge", "-1"): ("V104", "-1"),
    ("big", "9" * 30): ("V104", "9" * 30),
    ("ratio", "1,5"): None,
    ("ratio", "nan"): ("V103", "nan"),
    ("ratio", "1e999"): ("V105", "inf"),
    ("yes", "yes"): ("V103", "yes"),
    ("day", "31.05.2024"): ("V107", "31.05.2024"),
    ("kind", "c"): ("V201", "c"),
    ("tags", "x"): ("V103", "x"),
    ("tags", '"[1]"'): ("V103", "[1]"),
    ("v", "[1]"): ("V111", "[1]"),
    ("v", '"{""a"": 1}"'): ("V103", '{"a": 1}'),
    ("other", "1"): ("V102", "1"),
}


@pytest.mark.parametrize("line", BAD)
def test_invalid_field_is_a_violation(root: Location, tmp_path: Path, line: tuple[str, str]) -> None:
    header, field = line
    path = written(tmp_path, "things.csv", f"slug,{header}\ngood,\nx,{field}\n")
    (violation,) = violations(root, path, "Thing")
    expected = BAD[line]
    assert violation[:2] == ("things.csv", 3)
    if expected is None:
        assert violation[2:4] == (None, "V001")
    else:
        assert violation[2:4] == (header, expected[0])
        assert expected[1].strip('"') in violation[4]
    assert contents(root)["node:Thing"] == []


def test_a_bad_row_has_the_line_on_which_it_begins(root: Location, tmp_path: Path) -> None:
    rows = ['"two', 'lines",1', "", "short", 'odd"quote,1', "last,x", ",7"]
    path = written(tmp_path, "things.csv", "\n".join(["slug,small", *rows]))
    assert [violation[1:4] for violation in violations(root, path, "Thing")] == [
        (5, None, "V001"),
        (6, None, "V001"),
        (7, "small", "V103"),
        (8, "slug", "V101"),
    ]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("small\n1\n", ", but the input has no column of this name"),
        ("slug,small\n,1\n", ""),
        (pa.table({"small": [1]}), ", but the input has no column of this name"),
        (pa.table({"slug": pa.array([None], pa.string())}), ""),
        ([{"small": 1}], ""),
    ],
    ids=["csv without it", "csv", "table without it", "table", "dicts"],
)
def test_missing_column_is_reported_as_such(root: Location, tmp_path: Path, rows: object, reason: str) -> None:
    data = written(tmp_path, "things.csv", rows) if isinstance(rows, str) else rows
    with pytest.raises(LoadRejectedError) as rejected:
        load_here(root, data, "Thing")
    assert [v.message for v in rejected.value.report.first] == [f"a value is required{reason}"]


def test_text_is_kept_byte_for_byte(root: Location, tmp_path: Path) -> None:
    texts = ['a "b", c', "\n\r\nx", " x ", "NULL", "é\0"]
    rows = "".join('"' + text.replace('"', '""') + '"\r\n' for text in texts)
    load_here(root, written(tmp_path, "things.csv", "\ufeffslug\r\n" + rows), "Thing")
    assert {row["slug"] for row in contents(root)["node:Thing"]} == set(texts)


def test_bytes_that_are_not_unicode_are_a_violation(root: Location, tmp_path: Path) -> None:
    path = written(tmp_path, "things.csv", b"slug,small\nok,1\n\xff\xfe,1\n")
    assert {violation[1:4] for violation in violations(root, path, "Thing")} >= {(3, "slug", "V106")}


def test_edges_have_endpoints(root: Location, tmp_path: Path) -> None:
    nodes = written(tmp_path, "things.csv", "slug\na\nb\n")
    edges = written(tmp_path, "next.csv", "to,from,weight\nb,a,0.5\n")
    loaded = load_here(root, {"Thing": nodes, "next": edges})
    assert loaded.counts == {"node:Thing": 2, "edge:Next": 1}
    (edge,) = contents(root)["edge:Next"]
    assert (edge["src"], edge["dst"], edge["weight"]) == ("a", "b", 0.5)
    missing = written(tmp_path, "missing.csv", "from,weight\na,1\nb,2\n")
    assert [violation[1:4] for violation in violations(root, missing, "Next")] == [(2, "to", "V101"), (3, "to", "V101")]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_files_are_read_and_damaged_ones_rejected(root: Location, tmp_path: Path, ending: str) -> None:
    plain = b"slug,small\n" + b"".join(b"s%d,%d\n" % (row, row) for row in range(5_000))
    packed = gzip.compress(plain) if ending == ".gz" else zstandard.ZstdCompressor().compress(plain)
    assert load_here(root, written(tmp_path, f"things.csv{ending}", packed), "Thing").total == 5_000
    before = files(root)
    for bad in (packed[:-200], plain, b"\x00" + packed[1:]):
        with pytest.raises(OmnigraphError) as refused:
            load_here(root, written(tmp_path, f"bad.csv{ending}", bad), "Thing")
        assert refused.value.code == "input_unreadable"
        assert "bad.csv" in refused.value.message
    assert files(root) == before


HEADERS = {
    b"\n1,2\n": "csv_header",
    b"slug,,small\n": "csv_header",
    b'slug,"small\n': "csv_header",
    b"slug,\xff\n": "csv_header",
    b"\xff\xfes\0l\0": "csv_header",
    b"slug,small,slug\n": "input_columns",
    b"ada,36\ngrace,37\n": "input_columns",
    b"slug;small\nx;1\n": "csv_header",
    b"slug\tsmall\nx\t1\n": "csv_header",
}


@pytest.mark.parametrize("data", HEADERS)
def test_file_without_a_header_is_rejected(root: Location, tmp_path: Path, data: bytes) -> None:
    before = files(root)
    with pytest.raises(OmnigraphError) as refused:
        load_here(root, written(tmp_path, "things.csv", data), "Thing")
    assert (refused.value.code, "things.csv" in refused.value.message) == (HEADERS[data], True)
    assert "Nothing was written." in refused.value.hint
    assert files(root) == before


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"slug;small\nx;1\n", "commas between the names, got semicolons", "column names such as slug,"),
        (b"slug\tsmall\n", "commas between the names, got tabs", "column names such as slug,"),
        ("slug,small\n".encode("utf-16"), "UTF-8, got another encoding", "Save the file as UTF-8."),
    ],
)
def test_reason_of_an_invalid_header(root: Location, tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    with pytest.raises(OmnigraphError) as refused:
        load_here(root, written(tmp_path, "things.csv", data), "Thing")
    assert refused.value.message.endswith(f"'{tmp_path / 'things.csv'}': expected {message}")
    assert hint in refused.value.hint


def test_header_with_columns_of_the_table_names_those_of_the_input(root: Location, tmp_path: Path) -> None:
    with pytest.raises(OmnigraphError) as refused:
        load_here(root, written(tmp_path, "links.csv", "src,dst\na,b\n"), "Next")
    assert refused.value.hint == ("Nothing was written. Rename the columns of the endpoints: use `from` and `to`.")


def test_header_alone_gives_no_rows(root: Location, tmp_path: Path) -> None:
    assert load_here(root, written(tmp_path, "things.csv", "slug,small"), "Thing").commit is None


@pytest.mark.parametrize(
    ("name", "data"), [("t.csv", b""), ("t.csv", codecs.BOM_UTF8), ("t.csv.gz", gzip.compress(b"", mtime=0))]
)
def test_an_empty_file_is_an_empty_input(root: Location, tmp_path: Path, name: str, data: bytes) -> None:
    load_here(root, written(tmp_path, "things.csv", "slug,small\na,1\n"), "Thing")
    empty = written(tmp_path, name, data)
    assert load_here(root, empty, "Thing").commit is None
    result = og.open(root.uri).load({"Thing": empty}, mode="overwrite")
    assert result.changes["node:Thing"].deleted == 1
    assert contents(root)["node:Thing"] == []


def test_rows_from_s3(s3_location: Location, root: Location) -> None:
    ObjectStore(s3_location).create("things.csv", b"slug,small\na,1\n")
    og.init(s3_location.child("g").uri, SCHEMA, storage_options=dict(s3_location.options))
    remote = s3_location.child("g")
    assert load_here(remote, s3_location.child("things.csv").uri, "Thing").total == 1
    assert contents(root)["node:Thing"] == []
    assert contents(remote)["node:Thing"][0]["small"] == 1


CATALOG = build_catalog(parse_schema(SCHEMA))


@given(st.lists(st.sampled_from([b"a", b"7", b",", b'"', b"\n", b"\r\n", b"\xff", b"\0", b"[1]", b"\xc3\xa9"])))
def test_no_bytes_make_a_worker_fail(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    path = written(tmp_path_factory.mktemp("any"), "things.csv", b"slug,small,tags\n" + b"".join(parts))
    (piece,) = plan_csv_pieces(find_inputs([path]), CATALOG.nodes[0])
    blocks = list(piece.blocks(CATALOG))
    for block in blocks:
        for typed in block.rows:
            checked = check_batch(typed.entity, typed.raw)
            assert checked.rows.num_rows == len(typed.lines)
        places = [line for typed in block.rows for line in typed.lines.tolist()]
        places += [bad.line for bad in block.bad]
        assert len(set(places)) == len(places), "a line is good or bad, once"
        assert all(0 <= place < block.lines for place in places)
