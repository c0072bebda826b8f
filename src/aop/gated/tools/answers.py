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
    """What to do now."""
    status: str
    """Where the workflow is."""
    next_call: str
    """The call that comes next."""
    notes: tuple[str, ...] = ()
    """What was not as the server left it, and was put back."""


class SubmitWork(Arguments, frozen=True, kw_only=True):
    summary: Summary
    """What was done, in a sentence or two."""
    test_command: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None
    """One program and its arguments; no shell reads it."""
    expectation: Expectation | None = None
    """How the command is to end: `FAIL` for a RED step, `PASS` for any other."""
    analysis_decision: Decision | None = None
    """Alone: whether the run that waits failed for the right reason."""
    commit_hash: Annotated[str, Meta(max_length=64)] | None = None
    """The tip of the branch as you know it; without one, the server makes and knows it alone."""


class Judgement(Struct, frozen=True, kw_only=True):
    status: SubmissionVerdict
    """How the work was judged."""
    output: str
    """What was printed, word for word."""
    next_call: str
    """The call that comes next."""
    notes: tuple[str, ...] = ()
    """What was not as the server left it, and was put back."""


class Escalate(Arguments, frozen=True, kw_only=True):
    markdown_report: Annotated[str, Meta(min_length=1, max_length=16_000)]
    """The problem, what was tried, the errors, and what you make of them."""


class Escalated(Task, frozen=True, kw_only=True):
    markdown_report: str
    """The report, as it was handed in."""
    question_id: str
    """What the person answers."""


class ReadFile(Arguments, frozen=True, kw_only=True):
    file_path: str
    """From the root of the worktree."""


class FileState(Struct, frozen=True, kw_only=True):
    file_path: str
    """From the root of the worktree."""
    version: int
    """Counts the changes of the workflow."""
    sha256: str
    """Of the whole content; for a file that is not there, of nothing."""
    content: str
    """What it holds, in this encoding; secrets are masked."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """How `content` is written: as text, or as base64 where it is no UTF-8."""
    exists: bool = True
    """Whether there is such a file."""
    truncated: bool = False


class FileRead(FileState, frozen=True, kw_only=True):
    next_call: str
    """The call that comes next."""


class ListDirectory(Arguments, frozen=True, kw_only=True):
    path: str = ""
    """A folder; empty for the root."""


class DirectoryListed(Struct, frozen=True, kw_only=True):
    path: str
    """The folder."""
    entries: tuple[str, ...]
    """The names; those of folders end with `/`."""
    next_call: str
    """The call that comes next."""


class SearchCode(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    """What to find: the text as it is, unless `regex` is set."""
    regex: bool = False
    """Read the query as an RE2 pattern."""
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    """Files and folders to look in; all, if none is named."""


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
    """The call that comes next."""


class SafePatch(Arguments, frozen=True, kw_only=True):
    file_path: str
    """The one file that the diff changes, from the root of the worktree."""
    unified_diff: Annotated[str, Meta(min_length=1)]
    base_content_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """Of the content that the diff was made from; for a new file, of nothing."""
    reason: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    """Why a test that went red has to change; a person decides."""


class Patched(Struct, frozen=True, kw_only=True):
    success: bool
    """Whether the file was changed."""
    message: str
    """What happened, and what to do if nothing did."""
    latest_file_state: FileState
    """The file as it is now."""
    next_call: str

    """The call that comes next."""
