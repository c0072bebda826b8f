"""Ports of the ticket systems: tracker, version control and documentation.

Each port is backed by an MCP server. A write has a marker, `run/step`, and is not repeated where that marker exists: a
lost reply looks the same as a lost request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from aop.brains.conversation import Offer
from aop.core.errors import RemoteRejected
from aop.reviews.report import CodeReviewReport
from aop.tickets.scaffold_plan import PlannedFile


class Ticket(Struct, frozen=True, kw_only=True):
    """A ticket, as the tracker has it now."""

    key: str
    summary: str
    description: Any
    """Text, or an Atlassian document."""
    status: str


class MergeRequest(Struct, frozen=True, kw_only=True):
    """A merge request; its number is the end of its address."""

    number: str
    url: str
    state: str
    """`opened`, `merged` or `closed`."""
    source_branch: str
    target_branch: str
    head: str = ""
    """Its newest commit; empty if unknown."""


class BranchWork(Struct, frozen=True, kw_only=True):
    """The work that a branch has beside its base."""

    is_empty: bool
    """Whether it is at the head of its base."""
    commit: str = ""
    """Its newest commit, if a run for this ticket made it."""


def taken_branch(branch: str) -> RemoteRejected:
    """Return the refusal of a branch that someone else made while this run was at work."""
    return RemoteRejected(
        f"Someone else created the branch `{branch}` meanwhile.",
        branch=branch,
        hint="It may be the work of another run for this ticket: look at it and at its merge request, and leave it as "
        "it is. To have a second one beside it, choose another `branch_slug` in the ticket, and start again.",
    )


class PublishedNote(Struct, frozen=True, kw_only=True):
    """A note on a merge request, by any author."""

    body: str
    resolved: bool = False


class KnownTool(Struct, frozen=True):
    """The server's tool for one of our operations, and its names for our arguments."""

    tool: str
    arguments: Mapping[str, str]


class McpPort(Protocol):
    """The tools of a port, for a model; Python calls them."""

    @property
    def known_tools(self) -> Mapping[str, KnownTool]:
        """Return the tools by the operations of `aop.tickets.loop.tool_policy`."""

    async def get_mcp_tools(self) -> Sequence[Offer]:
        """Return the tools of the server behind the port."""

    async def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool. Raises: RemoteToolsMissing if unknown, RemoteRejected, RemoteNotFound, RemoteUnavailable."""


class TrackerPort(McpPort, Protocol):
    """A tracker of tickets. Each operation raises RemoteNotFound, RemoteRejected or RemoteUnavailable."""

    async def get_ticket(self, key: str) -> Ticket:
        """Return a ticket."""

    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        """Add a comment, once for each marker."""

    async def update_task_description(self, key: str, addition: str) -> None:
        """Append to the description, unless it has the addition."""

    async def update_status(self, key: str, state: str) -> None:
        """Move a ticket to a state, unless it is there."""

    async def check_status(self, key: str, state: str) -> None:
        """Raise what `update_status` would raise, and move nothing."""


class VcsPort(McpPort, Protocol):
    """A version control system. Each operation raises RemoteNotFound, RemoteRejected or RemoteUnavailable."""

    async def resolve_project(self, project: str) -> str:
        """Return the id of a project that is named by its path."""

    async def validate_branch_existence(self, project: str, branch: str) -> bool:
        """Tell whether a branch exists."""

    async def create_branch(self, project: str, branch: str, *, base: str | None) -> None:
        """Create a branch at the head of another (None: the default branch), unless it exists there."""

    async def find_work(self, project: str, branch: str, *, base: str | None, runs: str) -> BranchWork:
        """Return what a branch has beside its base (None: the default branch); `runs` begins the ids of our runs."""

    async def list_files(self, project: str, branch: str | None) -> Sequence[str]:
        """Return the files of a branch (None: the default branch), by path; of a large one the first."""

    async def commit_changes(
        self,
        project: str,
        branch: str,
        message: str,
        files: Sequence[PlannedFile],
        *,
        marker: str,
        may_replace: Collection[str] = (),
    ) -> str:
        """Commit files to a branch, once for each marker, and return the commit.

        Raises: ScaffoldPlanRejected if a file exists and may not be replaced.
        """

    async def find_merge_request(self, project: str, branch: str) -> MergeRequest | None:
        """Return the newest merge request of a branch."""

    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        """Return a merge request."""

    async def get_merge_request_diff(self, project: str, number: str) -> str:
        """Return the unified diff of a merge request."""

    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        """Return all notes of a merge request."""

    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        """Write a thread for each finding with a line, once, and a summary, once for each marker; approve nothing."""

    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        """Approve a merge request whose newest commit is `head`, unless AOP has approved it."""

    async def create_merge_request(
        self, project: str, branch: str, *, base: str | None, title: str, description: str
    ) -> MergeRequest:
        """Open a merge request, unless the branch has an open one."""


class DocsPort(McpPort, Protocol):
    """Documentation with the standards. Each operation raises RemoteRejected or RemoteUnavailable."""

    async def get_project_context(self, service_name: str) -> str:
        """Return the documentation of a service, or an empty text."""

    async def get_architecture_context(self, page_id: str) -> str:
        """Return the standards page. Raises: RemoteNotFound."""
