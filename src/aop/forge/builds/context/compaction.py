"""Compaction: the middle of a long conversation becomes a computed summary.

The rules stand in the instructions, which are never compacted; what the record knows is told from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from aop.brains.conversation import Observation, Reply, Turn, UserText
from aop.core.text.counts import count
from aop.forge.builds.documents import PhaseProgress

KEPT_MESSAGES = 4
HEADING = "## The conversation so far, in short"
MOST_RESULTS = 5
RESULT_CHARS = 300
SHORTEST_RESULT = 2_000
"""A tool's answer is cut to no less than this."""
CHECKS = frozenset({"run_tests", "run_command", "check_syntax"})


class Recollection(Struct, frozen=True, kw_only=True):
    """The facts of a build in the record, for a model that forgets its conversation."""

    phase: int
    phase_name: str
    progress: PhaseProgress
    signed_off: tuple[int, ...] = ()
    contracts: tuple[str, ...] = ()
    """The contracts and phase windows that were read."""
    files: tuple[str, ...] = ()
    """The files that the build has written."""
    pad: tuple[str, ...] = ()
    """The keys of the scratchpad."""


def conversation_tokens(turns: Sequence[Turn], count_tokens: Callable[[str], int]) -> int:
    """Return the size of a conversation."""
    return sum(count_tokens(text_of(turn)) for turn in turns)


class ConversationSize:
    """The size of a conversation that grows: each turn is counted once."""

    def __init__(self, count_tokens: Callable[[str], int]) -> None:
        self._count_tokens = count_tokens
        self._tokens = 0
        self._turns = 0
        self._last: Turn | None = None

    def of(self, turns: Sequence[Turn]) -> int:
        """Return the size of the conversation now; one that was shortened is counted anew."""
        if not 0 < self._turns <= len(turns) or turns[self._turns - 1] is not self._last:
            self._tokens, self._turns = 0, 0
        self._tokens += conversation_tokens(turns[self._turns :], self._count_tokens)
        self._turns, self._last = len(turns), turns[-1]
        return self._tokens


def text_of(turn: Turn) -> str:
    """Return the text that a turn sends."""
    if isinstance(turn, UserText | Observation):
        return turn.text
    return "\n".join([turn.text, *(f"{call.name} {call.arguments}" for call in turn.calls)])


def compacted(
    turns: Sequence[Turn], known: Recollection, most_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[Turn, ...]:
    """Return the first message, a summary, and the last four messages (FORGE-067).

    A message is a reply, or everything between two replies. Answers of tools that are still too long are cut.
    """
    start = _start_of_last(turns)
    summary = UserText(text=summary_of(turns[1:start], known))
    kept = (turns[0], summary, *turns[start:])
    if conversation_tokens(kept, count_tokens) < most_tokens:
        return kept
    shown = sum(isinstance(turn, Observation) for turn in kept) or 1
    longest = max(SHORTEST_RESULT, most_tokens // shown)
    return tuple(_cut(turn, longest) if isinstance(turn, Observation) else turn for turn in kept)


def summary_of(turns: Sequence[Turn], known: Recollection) -> str:
    """Return what a model must know of the part that it no longer sees."""
    plan = [
        f"- {'done' if task.number in known.progress.done else 'open'}: {task.number}. {task.text}"
        for task in known.progress.plan
    ]
    signed = ", ".join(map(str, known.signed_off)) or "none"
    return "\n".join(
        [
            HEADING,
            f"{count(len(turns), 'earlier message')} left out. Nothing that was done is lost.",
            f"Phase {known.phase} — {known.phase_name}. Signed off: {signed}.",
            "Plan:" if plan else "Plan: none yet.",
            *plan,
            f"Contracts read: {_joined(known.contracts)}. Call `forge_get_contract` or `forge_get_phase_window` to read"
            " one again.",
            f"Files written: {_joined(known.files)}.",
            f"Notes in the scratchpad: {_joined(known.pad)}. Call `forge_scratchpad` to read them.",
            "Last results:",
            *(_results(turns) or ["- none"]),
        ]
    )


def _results(turns: Sequence[Turn]) -> list[str]:
    found = [turn for turn in turns if isinstance(turn, Observation) and turn.name in CHECKS]
    return [
        f"- {turn.name}: {'answered' if turn.ok else 'refused'}, {' '.join(turn.text.split())[:RESULT_CHARS]}"
        for turn in found[-MOST_RESULTS:]
    ]


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _start_of_last(turns: Sequence[Turn]) -> int:
    """Return where the last four messages begin: always at a reply, so that each result has its call."""
    replies = [at for at, turn in enumerate(turns) if isinstance(turn, Reply)]
    wanted = KEPT_MESSAGES // 2
    return replies[-wanted] if len(replies) >= wanted else (replies[0] if replies else len(turns))


def _cut(turn: Observation, longest: int) -> Observation:
    if len(turn.text) <= longest:
        return turn
    *_, closing = turn.text.rsplit("\n", 1)
    note = f"[{len(turn.text) - longest} more characters were removed here; ask for a part of it]"
    return replace(turn, text=f"{turn.text[:longest]}\n{note}\n{closing[:200]}")
