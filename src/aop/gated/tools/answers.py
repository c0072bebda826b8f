"""Answers: arguments and results of the gated tools."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.roles import Role
from aop.gated.machine.state import Decision, Expectation, SubmissionVerdict
from aop.kernel.gateway.calls import Arguments

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


class ReadFile(Arguments, frozen=True, kw_only=True):
    file_path: str
    """The path from the root of the worktree."""


class FileState(Struct, frozen=True, kw_only=True):
    file_path: str
    """The path from the root of the worktree."""
    version: int
    """The number of changes in this workflow."""
    sha256: str
    """The hash of the whole content; for a missing file, of empty content."""
    content: str
    """The content, in this encoding; secrets are masked."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """The encoding of `content`: text, or base64 if the file is not UTF-8."""
    exists: bool = True
    """Whether the file exists."""
    truncated: bool = False


class FileRead(FileState, frozen=True, kw_only=True):
    next_call: str
    """The next call."""


class ListDirectory(Arguments, frozen=True, kw_only=True):
    path: str = ""
    """A folder; empty for the root."""


class DirectoryListed(Struct, frozen=True, kw_only=True):
    path: str
    """The folder."""
    entries: tuple[str, ...]
    """The names; those of folders end with `/`."""
    next_call: str
    """The next call."""


class SearchCode(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    """The text to find, taken literally unless `regex` is set."""
    regex: bool = False
    """Read the query as an RE2 pattern."""
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    """The files and folders to search; empty: all."""


class Line(Struct, frozen=True, kw_only=True):
    path: str
    """The file."""
    line: int
    """The number of the line, from 1."""
    text: str
    """The line; secrets are masked."""


class CodeFound(Struct, frozen=True, kw_only=True):
    matches: tuple[Line, ...]
    """The lines that match, file by file."""
    truncated: bool
    next_call: str
    """The next call."""


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
