"""Exit codes of `aop`, and the one place where a refusal becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from aop.core.errors import Move, all_refusals


class Exit(IntEnum):
    """The result of a command, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_PROVEN = 3
    NEEDS_PERSON = 4
    WAITING = 5
    TRY_AGAIN = 6
    ESCALATED = 10
    INTERRUPTED = 130


EXIT_WORDS: Mapping[Exit, str] = {
    Exit.OK: "The command did what it was asked for.",
    Exit.FAILED: "It failed, or was refused.",
    Exit.USAGE: "The command line is not valid.",
    Exit.NOT_PROVEN: "Nothing was done, or what was asked for is not proven.",
    Exit.NEEDS_PERSON: "A person is needed.",
    Exit.WAITING: "It waits for another feature or process.",
    Exit.TRY_AGAIN: "Trying again may help.",
    Exit.ESCALATED: "The work was handed to a person.",
    Exit.INTERRUPTED: "It was stopped by Ctrl-C.",
}

EXIT_OF_MOVE: Mapping[Move, Exit] = {
    Move.ADAPT: Exit.FAILED,
    Move.CORRECT_USAGE: Exit.USAGE,
    Move.PROVE: Exit.NOT_PROVEN,
    Move.ASK_PERSON: Exit.NEEDS_PERSON,
    Move.WAIT: Exit.WAITING,
    Move.RETRY: Exit.TRY_AGAIN,
    Move.ESCALATE: Exit.ESCALATED,
    Move.CONTINUE: Exit.INTERRUPTED,
}


def exit_of(code: str) -> Exit:
    """Return the exit code for an error code; an unknown one means failure."""
    moves = {refusal.code: refusal.move for refusal in all_refusals()}
    return EXIT_OF_MOVE[moves.get(code, Move.ADAPT)]
