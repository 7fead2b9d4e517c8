"""What repair may do with a table, the decision, and the row it reports. Pure.

The decision is the table of the specification: classification against preview, `--confirm` and `--force`, and the other
way out, `--discard`. An *obstacle* is a reason why publishing or discarding would break the graph; no flag helps then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from omnigraph.base.errors import Fact, RefusedError, UsageError
from omnigraph.base.flag_words import in_python
from omnigraph.maintenance.drift import Classification

NOT_CHECKED: Final = ("constraints", "endpoints")
"""What nobody checks of rows that a foreign tool wrote: the rules of the schema, and that edges end at nodes."""

FOREIGN: Final = "a foreign change: --force publishes it, --discard drops it"
"""Why a change is refused that the other flags put right."""


class RepairAction(StrEnum):
    """What was done with a table."""

    NO_OP = "no_op"
    """There was nothing to do."""
    PREVIEW = "preview"
    """Nothing, as `confirm` was not given."""
    HEALED = "healed"
    """A harmless change was published."""
    REFUSED = "refused"
    """Nothing; `error` says why."""
    FORCED = "forced"
    """A foreign change was published."""
    DISCARDED = "discarded"
    """The table got its published content back."""
    SKIPPED = "skipped"
    """Nothing; the branch was deleted while repair ran."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What repair may do; without any it only looks."""

    confirm: bool = False
    """Publish what is verified to be harmless."""
    force: bool = False
    """Publish the rest too; needs `confirm`."""
    discard: bool = False
    """Drop what was done instead of publishing it; needs `confirm`."""

    def refuse_contradiction(self) -> None:
        """Raise when the flags do not go together."""
        if self.force and self.discard:
            raise UsageError(
                "force publishes foreign changes and discard drops them",
                code="repair_twice",
                hint="pass --force or --discard",
            )
        if (self.force or self.discard) and not self.confirm:
            word = "force" if self.force else "discard"
            raise RefusedError(
                f"{word} changes what the graph publishes, and nobody confirmed it",
                code="confirmation_missing",
                hint=f"look at the preview first, then pass --{word} --confirm",
            )


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why a foreign change cannot be published, and why it cannot be discarded; empty when it can."""

    publish: str = ""
    discard: str = ""


@dataclass(frozen=True, slots=True)
class TableRepairStats:
    """One table of one branch, as repair found it."""

    table_key: str
    """The table, `node:Person`, or `__manifest` when the branch itself cannot be read."""
    branch: str
    """The branch."""
    classification: Classification
    """What kind of drift it has."""
    action: RepairAction
    """What was done."""
    manifest_version: int
    """The published Lance version of the table; after something was done, the new one."""
    lance_head_version: int | None
    """Its newest Lance version; None when the table cannot be read."""
    operations: tuple[str, ...]
    """What was done to it since it was published, in Lance's words, such as `Delete`."""
    flag_error: str | None
    """`error` in the words of the command line."""
    rows_added: int | None
    """How many rows publishing adds; None when that cannot be told."""
    rows_updated: int | None
    """How many rows publishing changes; None when that cannot be told."""
    rows_deleted: int | None
    """How many rows publishing takes away; None when that cannot be told."""
    not_checked: tuple[str, ...] = ()
    """What nobody checks of rows published by force: `constraints` and `endpoints`."""
    commit: str | None = None
    """The graph commit that put it right, or None."""

    @property
    def error(self) -> str | None:
        """Why nothing was done, or in a preview why nothing could be; None when there is no such reason."""
        return None if self.flag_error is None else in_python(self.flag_error)

    @property
    def can_be_published(self) -> bool:
        """Whether this is drift that was left alone, and a later call may publish it."""
        return self.action in (RepairAction.PREVIEW, RepairAction.REFUSED) and self.flag_error in (
            None,
            FOREIGN,
        )

    def to_json(self) -> dict[str, Fact]:
        """As a table of `omnigraph repair --json`."""
        return {
            "table_key": self.table_key,
            "branch": self.branch,
            "classification": self.classification.value,
            "action": self.action.value,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "operations": list(self.operations),
            "error": self.flag_error,
            "rows_added": self.rows_added,
            "rows_updated": self.rows_updated,
            "rows_deleted": self.rows_deleted,
            "not_checked": list(self.not_checked),
            "commit": self.commit,
        }


def decide_action(
    classification: Classification, options: RepairOptions, obstacles: Obstacles
) -> RepairAction:
    """What to do with one table."""
    match classification:
        case Classification.NO_DRIFT:
            return RepairAction.NO_OP
        case _ if not options.confirm:
            return RepairAction.PREVIEW
        case _ if options.discard:
            return RepairAction.REFUSED if obstacles.discard else RepairAction.DISCARDED
        case Classification.VERIFIED_MAINTENANCE:
            return RepairAction.REFUSED if obstacles.publish else RepairAction.HEALED
        case Classification.SUSPICIOUS | Classification.UNVERIFIABLE:
            return RepairAction.FORCED if options.force and not obstacles.publish else RepairAction.REFUSED
        case _:
            assert_never(classification)


def explain(action: RepairAction, options: RepairOptions, obstacles: Obstacles) -> str | None:
    """Why nothing was done, or in a preview why nothing could be."""
    match action:
        case RepairAction.PREVIEW:
            return _foreseen(obstacles)
        case RepairAction.REFUSED if options.discard:
            return obstacles.discard
        case RepairAction.REFUSED:
            return obstacles.publish or FOREIGN
        case _:
            return None


def _foreseen(obstacles: Obstacles) -> str | None:
    """What a later call will be refused, in a preview."""
    match obstacles:
        case Obstacles("", ""):
            return None
        case Obstacles(publish, "") if publish:
            return f"it cannot be published, by force neither: {publish}; --discard --confirm drops it"
        case Obstacles("", discard) if discard:
            return f"it cannot be discarded: {discard}"
        case _:
            return obstacles.publish
