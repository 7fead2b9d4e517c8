"""The functions of the language: for each its parameters, its result, its Arrow kernel and its Spark expression.

To add a function, add one entry to `FUNCTIONS`: the checks, both engines, explain and the hints read the table. An
argument has exactly the type of its parameter, because the checks convert it, and a function is null if an argument is
null. A kernel gets Arrow values, of which at least one is an array; an expression of Spark gets
`pyspark.sql.functions` and columns without nulls. Imports pyarrow only inside kernels, and Spark never.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from msgspec import Struct

from omnigraph.query.plan.types import DATE, I64, STRING, ValueType

_BLANKS: Final = " \t\n\v\f\r"
_LENGTH_MAX: Final = 2**30


class ScalarFunction(Struct, frozen=True, kw_only=True):
    """A function of one row. The last `optional` parameters can be omitted; `repeated`: the last can be repeated."""

    parameters: tuple[ValueType, ...]
    result: ValueType
    arrow: Callable[..., Any]
    spark: Callable[..., Any]
    optional: int = 0
    repeated: bool = False

    @property
    def counts(self) -> tuple[int, int | None]:
        """The smallest and the largest number of arguments; None without a largest."""
        return len(self.parameters) - self.optional, None if self.repeated else len(self.parameters)


def _kernel(name: str, **options: Any) -> Callable[..., Any]:
    """Return a function of `pyarrow.compute`, imported when it is called."""

    def call(*values: Any) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, name)(*values, **options)

    return call


def _expression(name: str) -> Callable[..., Any]:
    """Return a function of Spark."""
    return lambda functions, *columns: getattr(functions, name)(*columns)


def _case_kernel(kernel_name: str, method: Callable[[str], str]) -> Callable[[Any], Any]:
    """Return a kernel that maps ASCII with Arrow, and other text with Python, whose mapping is that of Spark."""

    def call(texts: Any) -> Any:
        import pyarrow.compute as pc

        if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
            return getattr(pc, kernel_name)(texts)
        return _map_rows(method, texts)

    return call


def _map_rows(function: Callable[..., Any], *values: Any) -> Any:
    """Return a function of each row, with the type of the first argument; null if an argument is null."""
    import pyarrow as pa

    cells = [repeat(value.as_py()) if isinstance(value, pa.Scalar) else value.to_pylist() for value in values]
    results = [None if None in row else function(*row) for row in zip(*cells, strict=False)]
    return pa.array(results, values[0].type)


def _join_texts(*texts: Any) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _slice_text(text: str, start: int, length: int | None = None) -> str:
    return text[max(start - 1, 0) : None if length is None else max(start - 1 + length, 0)]


def _slice_texts(texts: Any, start: Any, *length: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = [start, *length]
    if isinstance(texts, pa.Scalar) or not all(isinstance(number, pa.Scalar) and number.is_valid for number in numbers):
        return _map_rows(_slice_text, texts, *numbers)
    first = start.as_py() - 1
    end = first + length[0].as_py() if length else 2 * _LENGTH_MAX
    low = min(max(first, 0), _LENGTH_MAX)
    return pc.utf8_slice_codeunits(texts, low, min(max(end, low), 2 * _LENGTH_MAX))


def _slice_columns(functions: Any, text: Any, start: Any, *length: Any) -> Any:
    def clamp(number: Any, low: int) -> Any:
        return functions.least(functions.greatest(number, functions.lit(low)), functions.lit(_LENGTH_MAX))

    position = clamp(start, 1)
    if not length:
        return functions.substr(text, position.cast("int"))
    # A start before the text uses up a part of the length.
    end = clamp(start, -_LENGTH_MAX) + clamp(length[0], 0)
    return functions.substr(text, position.cast("int"), clamp(end - position, 0).cast("int"))


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "lower": ScalarFunction(
        parameters=(STRING,), result=STRING, arrow=_case_kernel("ascii_lower", str.lower), spark=_expression("lower")
    ),
    "upper": ScalarFunction(
        parameters=(STRING,), result=STRING, arrow=_case_kernel("ascii_upper", str.upper), spark=_expression("upper")
    ),
    "length": ScalarFunction(
        parameters=(STRING,), result=I64, arrow=_kernel("utf8_length"), spark=_expression("char_length")
    ),
    "trim": ScalarFunction(
        parameters=(STRING,),
        result=STRING,
        arrow=_kernel("utf8_trim", characters=_BLANKS),
        spark=lambda functions, text: functions.trim(text, functions.lit(_BLANKS)),
    ),
    "concat": ScalarFunction(
        parameters=(STRING, STRING), repeated=True, result=STRING, arrow=_join_texts, spark=_expression("concat")
    ),
    "substring": ScalarFunction(
        parameters=(STRING, I64, I64), optional=1, result=STRING, arrow=_slice_texts, spark=_slice_columns
    ),
    "year": ScalarFunction(parameters=(DATE,), result=I64, arrow=_kernel("year"), spark=_expression("year")),
    "month": ScalarFunction(parameters=(DATE,), result=I64, arrow=_kernel("month"), spark=_expression("month")),
    "day": ScalarFunction(parameters=(DATE,), result=I64, arrow=_kernel("day"), spark=_expression("day")),
}


class Duration(Struct, frozen=True):
    """A unit of durations: a number of calendar months, or of milliseconds."""

    months: int = 0
    millis: int = 0

    @property
    def is_part_of_day(self) -> bool:
        return 0 < self.millis < DAY_MILLIS


DAY_MILLIS: Final = 86_400_000
DURATIONS: Final[dict[str, Duration]] = {
    "years": Duration(months=12),
    "months": Duration(months=1),
    "weeks": Duration(millis=7 * DAY_MILLIS),
    "days": Duration(millis=DAY_MILLIS),
    "hours": Duration(millis=3_600_000),
    "minutes": Duration(millis=60_000),
    "seconds": Duration(millis=1000),
}
"""The units, which are functions of a number and can only be added to a date or subtracted from it."""
FIRST_DAY: Final = -719_162
"""0001-01-01, the first date, as days since 1970-01-01."""
LAST_DAY: Final = 2_932_896
"""9999-12-31, the last date."""


def largest_amount(duration: Duration) -> int:
    """Return a number of units that is longer than the whole range of dates, so that it stands for any larger one."""
    days = LAST_DAY - FIRST_DAY + 1
    return days // (28 * duration.months) + 1 if duration.months else days * DAY_MILLIS // duration.millis + 1
