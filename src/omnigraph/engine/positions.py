"""From one domain to another: where the ids of a column stand in the domain that a step works in."""

from __future__ import annotations

import numpy as np

from omnigraph.engine.cache import Cache
from omnigraph.engine.domain import Codes, Domain
from omnigraph.engine.frame import Coded, Column


def positions_in(domain: Domain, column: Column, cache: Cache) -> Codes:
    """The position of each id of the column in the domain, -1 for null and for ids that are not there."""
    if not isinstance(column, Coded):
        return domain.find(column)
    if column.domain is domain:
        return column.codes
    if column.domain.is_own:
        if len(column.domain) <= 2 * len(column.codes):
            return _mapped(domain.find(column.domain.array), column.codes)
        return domain.find(column.array())
    translation = column.domain.translation(domain)
    if translation is None:
        key = ("translation", id(column.domain), id(domain))
        if len(column.codes) * 16 < len(column.domain) and cache.touch(key) < 2:
            return domain.find(column.array())
        translation = column.domain.translate(domain)
    return _mapped(translation, column.codes)


def _mapped(codes: Codes, at: Codes) -> Codes:
    if not len(codes):
        return np.full(len(at), -1, dtype=np.int64)
    found = codes[at]
    missing = at < 0
    if missing.any():
        found[missing] = -1
    return found
