"""Phase picture: the phases of a gated workflow, placed for drawing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.gated.machine.state import Phase

WIDTH, HEIGHT = 336, 372
_BOX_WIDTH, _BOX_HEIGHT, _ROW = 138, 28, 47
_MAIN, _SIDE = 22, 194
_PLACES: Mapping[Phase, tuple[int, int]] = {
    Phase.INITIALIZING: (_MAIN, 0),
    Phase.CREATING_BRANCH: (_MAIN, 1),
    Phase.EXECUTING_TDD: (_MAIN, 2),
    Phase.CODE_REVIEW: (_MAIN, 3),
    Phase.AWAITING_FINALIZATION: (_MAIN, 4),
    Phase.FINALIZE_COMPLETE: (_MAIN, 5),
    Phase.PLAN_UPDATED: (_MAIN, 6),
    Phase.MERGING_BRANCH: (_MAIN, 7),
    Phase.REPLANNING: (_SIDE, 1),
    Phase.DEBUGGING: (_SIDE, 2),
    Phase.HALTED: (_SIDE, 7),
}
"""The column and the row of each phase."""
WAYS: Mapping[tuple[Phase, Phase], str] = {
    (Phase.INITIALIZING, Phase.CREATING_BRANCH): "M91 36V52",
    (Phase.CREATING_BRANCH, Phase.EXECUTING_TDD): "M91 83V99",
    (Phase.EXECUTING_TDD, Phase.CODE_REVIEW): "M81 130V146",
    (Phase.CODE_REVIEW, Phase.EXECUTING_TDD): "M101 149V133",
    (Phase.EXECUTING_TDD, Phase.DEBUGGING): "M160 111H191",
    (Phase.DEBUGGING, Phase.EXECUTING_TDD): "M194 121H163",
    (Phase.DEBUGGING, Phase.REPLANNING): "M263 102V86",
    (Phase.REPLANNING, Phase.EXECUTING_TDD): "M194 69H177V96H140V99",
    (Phase.CODE_REVIEW, Phase.AWAITING_FINALIZATION): "M91 177V193",
    (Phase.AWAITING_FINALIZATION, Phase.FINALIZE_COMPLETE): "M91 224V240",
    (Phase.FINALIZE_COMPLETE, Phase.PLAN_UPDATED): "M91 271V287",
    (Phase.FINALIZE_COMPLETE, Phase.DEBUGGING): "M160 257H263V133",
    (Phase.PLAN_UPDATED, Phase.MERGING_BRANCH): "M91 318V334",
    (Phase.MERGING_BRANCH, Phase.HALTED): "M160 351H191",
    (Phase.MERGING_BRANCH, Phase.INITIALIZING): "M22 351H8V22H19",
}
"""Every way from a phase to another one, as the line that draws it."""


class PhaseBox(Struct, frozen=True, kw_only=True):
    """One phase in the picture."""

    phase: str
    words: str
    x: int
    y: int
    width: int
    height: int
    middle: int
    """The position that its words are centred on."""
    baseline: int
    is_present: bool


class PhasePicture(Struct, frozen=True, kw_only=True):
    """The machine as lines and boxes."""

    width: int
    height: int
    boxes: tuple[PhaseBox, ...]
    lines: tuple[str, ...]


def phase_picture(present: str) -> PhasePicture:
    """Return the machine with the present phase marked."""
    return PhasePicture(
        width=WIDTH, height=HEIGHT, boxes=tuple(_box(phase, present) for phase in Phase), lines=tuple(WAYS.values())
    )


def _box(phase: Phase, present: str) -> PhaseBox:
    x, row = _PLACES[phase]
    y = 8 + row * _ROW
    return PhaseBox(
        phase=phase,
        words=phase.replace("_", " ").lower(),
        x=x,
        y=y,
        width=_BOX_WIDTH,
        height=_BOX_HEIGHT,
        middle=x + _BOX_WIDTH // 2,
        baseline=y + 18,
        is_present=phase == present,
    )
