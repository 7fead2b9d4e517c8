"""Structured log events: a sentence for people, and facts for programs as attributes of the record.

In: one of our loggers, a sentence, facts such as table, version and seconds. Out: a record of Python's `logging`. A
formatter that knows nothing of the facts prints the sentence; one that does reads `record.facts`.
"""

from __future__ import annotations

import logging

from omnigraph.base.errors import Fact


def log_event(
    logger: logging.Logger,
    sentence: str,
    *,
    level: int = logging.INFO,
    in_result: bool = False,
    **facts: Fact,
) -> None:
    """Log one event. The logger's name starts with `omnigraph.`.

    `in_result`: the caller also gets this as a part of the result, so a command does not print it twice.
    """
    logger.log(level, sentence, extra={"facts": facts, "in_result": in_result})
