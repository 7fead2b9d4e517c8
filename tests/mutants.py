"""Makes small random changes to the source (mutants), to see whether tests detect them.

`python -m tests.mutants` lists fifty mutants in lines of `src/omnigraph` that are all equally likely: an inverted
condition, a removed call, a number plus one. `python -m tests.mutants 7 tests/schema` applies the seventh, runs these
tests until one fails, and restores the file, also after an interrupt. The same seed and source give the same mutants.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SOURCE: Final = Path("src/omnigraph")
_PAIRS: Final = (
    (ast.Lt, "<", ast.LtE, "<="),
    (ast.Gt, ">", ast.GtE, ">="),
    (ast.Eq, "==", ast.NotEq, "!="),
    (ast.Is, "is", ast.IsNot, "is not"),
    (ast.In, "in", ast.NotIn, "not in"),
    (ast.And, "and", ast.Or, "or"),
    (ast.Add, "+", ast.Sub, "-"),
)
_SWAPS: Final[dict[type[ast.AST], tuple[str, str]]] = {
    **{first: (old, new) for first, old, _, new in _PAIRS},
    **{other: (new, old) for _, old, other, new in _PAIRS},
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
}
_TYPED: Final = {"cast", "isinstance", "getattr", "NewType"}  # type checks detect swapped arguments of these
_NO_BEHAVIOUR: Final = {"annotation", "returns", "decorator_list", "exc"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A span of a file, in bytes, and its replacement."""

    path: Path
    line: int
    start: int
    end: int
    new: str

    def __str__(self) -> str:
        old = " ".join(self.path.read_bytes()[self.start : self.end].decode().split())
        return f"{self.path}:{self.line} `{old}` → `{self.new.strip()}`"


def main() -> int:
    """List mutants, or try one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", epilog="What else is given, pytest gets.")
    parser.add_argument("number", type=int, nargs="?", help="of the mutant to try")
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--count", type=int, default=50)
    arguments, tests = parser.parse_known_args()
    mutants = pick(arguments.seed, arguments.count)
    if arguments.number is None:
        sys.stdout.writelines(f"{number:2} {mutant}\n" for number, mutant in enumerate(mutants, 1))
        return 0
    return _test_mutant(mutants[arguments.number - 1], tests)


def pick(seed: int, count: int) -> list[Mutant]:
    """Return `count` mutants, of different lines."""
    chance = random.Random(seed)
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    lines: list[tuple[Path, int]] = []
    for path in sorted(_SOURCE.rglob("*.py")):
        lines += [(path, line + 1) for line in range(path.read_text(encoding="utf-8").count("\n"))]
        for mutant in _mutants(path):
            by_line.setdefault((path, mutant.line), []).append(mutant)
    chance.shuffle(lines)
    return [chance.choice(by_line[line]) for line in lines if line in by_line][:count]


def _test_mutant(mutant: Mutant, tests: list[str]) -> int:
    before = mutant.path.read_bytes()
    try:
        mutant.path.write_bytes(before[: mutant.start] + mutant.new.encode() + before[mutant.end :])
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", *tests]
        return subprocess.run(command, check=False).returncode
    finally:
        mutant.path.write_bytes(before)


def _mutants(path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    offsets = [0]
    for row in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(row))

    def made(node: ast.expr | ast.stmt, new: str) -> Mutant:
        end = offsets[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return Mutant(path, node.lineno, offsets[node.lineno - 1] + node.col_offset, end, new)

    for node in _behaviour(ast.parse(source)):
        match node:
            case (
                ast.Compare(left=left, ops=[operator], comparators=[right])
                | ast.BoolOp(op=operator, values=[left, right, *_])
                | ast.BinOp(left=left, op=operator, right=right)
            ) if type(operator) in _SWAPS:
                start, end = made(left, "").end, made(right, "").start
                between = source[start:end].decode().replace(*_SWAPS[type(operator)], 1)
                yield Mutant(path, left.lineno, start, end, between)
            case ast.expr() | ast.stmt():
                yield from (made(node, new) for new in _instead(node))
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield made(node.test, f"not ({ast.unparse(node.test)})")


def _instead(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.Constant(value=int(value)):
            yield str(not value if isinstance(value, bool) else value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in {"None", "False"}:
            yield "return None"
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            yield "pass"
        case ast.Call(func=function, args=[first, second, *rest]) if ast.unparse(function) not in _TYPED:
            yield ast.unparse(ast.Call(function, [second, first, *rest], node.keywords))


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that affect behaviour: no types, decorators or messages."""
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.JoinedStr) or (
                isinstance(child, ast.Expr | ast.If)
                and ast.unparse(child).startswith(("assert_never", "if TYPE_CHECKING"))
            )
            if isinstance(child, ast.AST) and name not in _NO_BEHAVIOUR and not is_text:
                yield from _behaviour(child)


if __name__ == "__main__":
    sys.exit(main())
