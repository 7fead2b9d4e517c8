"""The syntax tree of a `.pg` text: declarations with their parts, nothing resolved, every part with its position.

Positions are not compared, so two texts with the same meaning have equal trees. A tree can contain errors (an unknown
type, a misplaced annotation); `checks` report them.
"""

from __future__ import annotations

from typing import ClassVar

from omnigraph.lang.syntax import Annotation, Name, SyntaxNode, TypeExpression


class PropertySyntax(SyntaxNode, frozen=True):
    """`name: type @annotation …`."""

    name: Name
    type: TypeExpression
    annotations: tuple[Annotation, ...] = ()


class Body(SyntaxNode, frozen=True):
    """The part between the braces. `misplaced` are annotations that follow no property."""

    properties: tuple[PropertySyntax, ...] = ()
    constraints: tuple[Annotation, ...] = ()
    misplaced: tuple[Annotation, ...] = ()


class _DeclarationSyntax(SyntaxNode, frozen=True):
    """The common parts of declarations. Only nodes can implement interfaces; `check_interfaces` reports the others."""

    keyword: ClassVar[str]
    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    body: Body = Body()

    @property
    def label(self) -> str:
        return f"{self.keyword} {self.name.text}"


class InterfaceSyntax(_DeclarationSyntax, frozen=True):
    """`interface Name … { … }`."""

    keyword = "interface"


class NodeSyntax(_DeclarationSyntax, frozen=True):
    """`node Name implements I, … { … }`."""

    keyword = "node"


class EdgeSyntax(_DeclarationSyntax, frozen=True, kw_only=True):
    """`edge Name: Source -> Target … { … }`."""

    keyword = "edge"
    source: Name
    target: Name


Declaration = InterfaceSyntax | NodeSyntax | EdgeSyntax


class Schema(SyntaxNode, frozen=True):
    """A whole text: its declarations in order, and the text itself, to show the lines of errors."""

    ignored = ("source", "text")
    declarations: tuple[Declaration, ...] = ()
    source: str = "<schema>"
    text: str = ""
