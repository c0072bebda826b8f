"""The systems around a ticket as its agents see them: a tracker, a version control system, and documentation.

Behind each port stands an MCP server. A write takes a marker, `run/step`: what has that marker already is not written
again, since a reply that was lost cannot be told from a request that was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from aop.brains.conversation import Offer
from aop.reviews.report import CodeReviewReport
from aop.tickets.scaffold_plan import PlannedFile


class Ticket(Struct, frozen=True, kw_only=True):
    """A ticket as the tracker has it now."""

    key: str
    summary: str
    description: Any
    """Text, or an Atlassian document."""
    status: str


class MergeRequest(Struct, frozen=True, kw_only=True):
    """A merge request, by the number that its address ends with."""

    number: str
    url: str
    state: str
    """`opened`, `merged` or `closed`."""
    source_branch: str
    target_branch: str
    head: str = ""
    """The commit that it would merge; empty where nobody said."""


class PublishedNote(Struct, frozen=True, kw_only=True):
    """A note that stands at a merge request, whoever wrote it."""

    body: str
    resolved: bool = False


class KnownTool(Struct, frozen=True):
    """The server's tool for one of our operations, and its names for our arguments."""

    tool: str
    arguments: Mapping[str, str]


class McpPort(Protocol):
    """What every port has for a model in a loop; Python calls the tool."""

    @property
    def known_tools(self) -> Mapping[str, KnownTool]:
        """Return the tools that AOP knows the meaning of, by the operations of `aop.tickets.loop.tool_policy`."""

    async def get_mcp_tools(self) -> Sequence[Offer]:
        """Return the tools of the server behind the port."""

    async def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call one of them.

        Raises: RemoteToolsMissing if the server has no such tool; RemoteRejected, RemoteNotFound, RemoteUnavailable.
        """


class TrackerPort(McpPort, Protocol):
    """Where tickets live. Every operation raises RemoteNotFound, RemoteRejected or RemoteUnavailable."""

    async def get_ticket(self, key: str) -> Ticket:
        """Return a ticket."""

    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        """Write a comment, once for a marker."""

    async def update_task_description(self, key: str, addition: str) -> None:
        """Append to the description, unless it has the addition already."""

    async def update_status(self, key: str, state: str) -> None:
        """Move a ticket to a state by the transition that leads there, unless it is there."""

    async def check_status(self, key: str, state: str) -> None:
        """Refuse what `update_status` would refuse, and move nothing."""


class VcsPort(McpPort, Protocol):
    """Where code lives. Every operation raises RemoteNotFound, RemoteRejected or RemoteUnavailable."""

    async def resolve_project(self, project: str) -> str:
        """Return the id of a project that is named by its path."""

    async def validate_branch_existence(self, project: str, branch: str) -> bool:
        """Tell whether a branch exists; that nobody could say is an error."""

    async def create_branch(self, project: str, branch: str, *, base: str | None) -> None:
        """Make a branch at the head of another (None: of the default branch), unless it is there and still at it."""

    async def commit_changes(
        self, project: str, branch: str, message: str, files: Sequence[PlannedFile], *, marker: str
    ) -> str:
        """Commit files to a branch, once for a marker, and return the commit."""

    async def find_merge_request(self, project: str, branch: str) -> MergeRequest | None:
        """Return the newest merge request of a branch."""

    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        """Return a merge request."""

    async def get_merge_request_diff(self, project: str, number: str) -> str:
        """Return what a merge request changes, as one unified diff."""

    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        """Return all notes of a merge request."""

    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        """Write a thread at each line that has a finding, once for a finding; and a note on all, once for a marker.

        It neither merges nor approves.
        """

    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        """Approve a merge request, unless AOP has approved it; one whose newest commit is another is refused."""

    async def create_merge_request(
        self, project: str, branch: str, *, base: str | None, title: str, description: str
    ) -> MergeRequest:
        """Open a merge request, unless the branch has an open one."""


class DocsPort(McpPort, Protocol):
    """Where standards are written down. Every operation raises RemoteRejected or RemoteUnavailable."""

    async def get_project_context(self, service_name: str) -> str:
        """Return what is written about a service; nothing is an empty text."""

    async def get_architecture_context(self, page_id: str) -> str:
        """Return the page of the standards.

        Raises: RemoteNotFound.
        """
