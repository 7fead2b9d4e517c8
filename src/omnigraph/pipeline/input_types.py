"""Which type the rows of an input are, when they do not say so themselves, and which columns can be theirs.

In: a name as the user writes it, the names of columns. Out: the type of the catalog, or one error that says what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from omnigraph.base.errors import ContentError, NotFoundError
from omnigraph.integrity.raw import FROM, ID, TO
from omnigraph.schema import Catalog, EdgeType, Entity


def type_of_rows(catalog: Catalog, name: str) -> Entity:
    """The node or edge type of that name; the case of an edge's first letter does not matter."""
    found = catalog.node_named(name) or catalog.edge_named(name)
    if found is None:
        known = [entity.name for entity in catalog.types]
        near = get_close_matches(name[:60], known, n=1)
        raise NotFoundError(
            f"the schema has no node or edge type '{name}'",
            code="load_type_unknown",
            hint=f"did you mean {near[0]}?" if near else "`omnigraph schema show` prints the types",
            facts={"type": name},
        )
    return found


def known_columns(entity: Entity) -> list[str]:
    """Every column that rows of the type may have, in the order in which a person would write them."""
    ends = [FROM, TO] if isinstance(entity, EdgeType) else []
    return [*ends, *(found.name for found in entity.properties), ID]


def refuse_twin_columns(source: str, names: Iterable[str]) -> None:
    """Raise when two columns have one name: nobody could say which of them counts."""
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        raise ContentError(
            f"{source} has more than one column '{twins[0]}'",
            code="input_columns",
            hint="nothing was written; give each column a name of its own",
            facts={"data": source, "column": twins[0]},
        )


def refuse_foreign_columns(source: str, names: Sequence[str], entity: Entity) -> None:
    """Raise when not one column is of the type: then it is another type, or there is no line of names."""
    known = known_columns(entity)
    if not set(names) & set(known):
        raise ContentError(
            f"no column of {source} is of {entity.name}: it has {_listed(names)}",
            code="input_columns",
            hint=f"nothing was written; the columns of {entity.name} are {_listed(known)}",
            facts={"data": source, "type": entity.name},
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown or "none"
