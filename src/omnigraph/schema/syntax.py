"""The syntax tree of a `.pg` text: what was written, nothing resolved, every part with its place.

Places do not take part in equality, so that two texts that say the same give equal trees. The tree can hold mistakes
(an unknown type, a stray annotation): the checks find them, the tree only has to be able to show where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.lang.syntax import Annotation, Name, TypeExpression


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    """`name: type @annotation …`."""

    name: Name
    type: TypeExpression
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """What stands between the braces. `strays` are annotations that follow no property."""

    properties: tuple[PropertySyntax, ...] = ()
    constraints: tuple[Annotation, ...] = ()
    strays: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    """`interface Name … { … }`."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    body: Body = Body()

    @property
    def label(self) -> str:
        return f"interface {self.name.text}"


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    """`node Name implements I, … { … }`."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    body: Body = Body()

    @property
    def label(self) -> str:
        return f"node {self.name.text}"


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    """`edge Name: Source -> Target … { … }`."""

    name: Name
    source: Name
    target: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    body: Body = Body()

    @property
    def label(self) -> str:
        return f"edge {self.name.text}"


Declaration = InterfaceSyntax | NodeSyntax | EdgeSyntax


@dataclass(frozen=True, slots=True)
class Schema:
    """A whole text: its declarations in order, and the text itself so that problems can show their line."""

    declarations: tuple[Declaration, ...] = ()
    source: str = field(default="<schema>", compare=False)
    text: str = field(default="", compare=False, repr=False)
