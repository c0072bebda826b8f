"""Answers: arguments and results of the gated tools."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.roles import Role
from aop.gated.machine.state import Decision, Expectation, SubmissionVerdict
from aop.kernel.gateway.calls import Arguments
from aop.kernel.tools.workspace.read import FileState

SWE = frozenset({Role.SWE, Role.SYSTEM})
Summary = Annotated[str, Meta(min_length=1, max_length=10_000)]


class Task(Struct, frozen=True, kw_only=True):
    task: str
    """The current task."""
    status: str
    """The phase of the workflow."""
    next_call: str
    """The next call."""
    notes: tuple[str, ...] = ()
    """Notes of the server: what it restored, and what it noticed."""


class SubmitWork(Arguments, frozen=True, kw_only=True):
    summary: Summary
    """A summary of the work, in one or two sentences."""
    test_command: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None
    """One program and its arguments, run without a shell."""
    expectation: Expectation | None = None
    """The expected result of the command: `FAIL` for a RED step, `PASS` for any other."""
    analysis_decision: Decision | None = None
    """Without the other fields: whether the pending test run failed for the right reason."""
    commit_hash: Annotated[str, Meta(max_length=64)] | None = None
    """The one commit of a branch that is squashed already; without it, the server squashes."""


class Judgement(Struct, frozen=True, kw_only=True):
    status: SubmissionVerdict
    """The verdict on the work."""
    output: str
    """The output, word for word."""
    next_call: str
    """The next call."""
    notes: tuple[str, ...] = ()
    """Notes of the server: what it restored, and what it noticed."""


class Escalate(Arguments, frozen=True, kw_only=True):
    markdown_report: Annotated[str, Meta(min_length=1, max_length=16_000)]
    """The problem, the attempts, the errors, and your analysis."""


class Escalated(Task, frozen=True, kw_only=True):
    markdown_report: str
    """The report, unchanged."""
    question_id: str
    """The question that the person answers."""


class SafePatch(Arguments, frozen=True, kw_only=True):
    file_path: str
    """The one file that the diff changes, from the root of the worktree."""
    unified_diff: Annotated[str, Meta(min_length=1)]
    base_content_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """The hash of the content that the diff was made from; for a new file, of empty content."""
    reason: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    """The reason to change a test that failed as it should; a person decides."""


class Patched(Struct, frozen=True, kw_only=True):
    success: bool
    """Whether the file was changed."""
    message: str
    """The result, and the next step if the file was not changed."""
    latest_file_state: FileState
    """The file as it is now."""
    next_call: str
    """The next call."""
