"""The entry points of the Spark data source: in whatever Python process Spark calls one, it runs as its caller.

That is under the storage settings of the process that registered the data source, and with errors whose text says
everything, because Spark shows only the text of what a Python process raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.base.errors import OmnigraphError
from omnigraph.storage.settings import StorageSettings


class DataSourceError(Exception):
    """A failed read or write. Its text is the sentence, the mistakes of the rows if there are any, and the hint."""


@contextmanager
def told_to_spark(settings: StorageSettings) -> Iterator[None]:
    """Apply the caller's settings, and give an error of ours a text that says everything."""
    try:
        with settings.applied():
            yield
    except OmnigraphError as error:
        raise DataSourceError(_text(error)) from None


def _text(error: OmnigraphError) -> str:
    hint = f"\nhint: {error.flag_hint}" if error.flag_hint else ""
    return f"{error.render()} ({error.code}){hint}".replace("--mode merge", "option 'mode' merge")
