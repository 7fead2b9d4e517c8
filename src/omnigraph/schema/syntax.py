"""The syntax tree of a `.pg` text: declarations with their parts, nothing resolved, every part with its position.

Positions are not compared, so two texts with the same meaning have equal trees. A tree can contain errors (an unknown
type, a misplaced annotation); `checks` report them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from omnigraph.lang.syntax import Annotation, Name, TypeExpression


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    """`name: type @annotation …`."""

    name: Name
    type: TypeExpression
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The part between the braces. `misplaced` are annotations that follow no property."""

    properties: tuple[PropertySyntax, ...] = ()
    constraints: tuple[Annotation, ...] = ()
    misplaced: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class _DeclarationSyntax:
    """The common parts of declarations. Only nodes can implement interfaces; `checks` report the others."""

    keyword: ClassVar[str]
    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    body: Body = Body()

    @property
    def label(self) -> str:
        return f"{self.keyword} {self.name.text}"


@dataclass(frozen=True, slots=True)
class InterfaceSyntax(_DeclarationSyntax):
    """`interface Name … { … }`."""

    keyword = "interface"


@dataclass(frozen=True, slots=True)
class NodeSyntax(_DeclarationSyntax):
    """`node Name implements I, … { … }`."""

    keyword = "node"


@dataclass(frozen=True, slots=True)
class EdgeSyntax(_DeclarationSyntax):
    """`edge Name: Source -> Target … { … }`."""

    keyword = "edge"
    source: Name = field(kw_only=True)
    target: Name = field(kw_only=True)


Declaration = InterfaceSyntax | NodeSyntax | EdgeSyntax


@dataclass(frozen=True, slots=True)
class Schema:
    """A whole text: its declarations in order, and the text itself, to show the lines of errors."""

    declarations: tuple[Declaration, ...] = ()
    source: str = field(default="<schema>", compare=False)
    text: str = field(default="", compare=False, repr=False)
