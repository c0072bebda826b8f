"""Dry run: reads, asks and checks like a real run, and only notes the writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from aop.brains.conversation import Offer
from aop.core.errors import Fault, Json, RemoteNotFound
from aop.core.ids import RunId
from aop.reviews.report import CodeReviewReport
from aop.tickets.loop.tool_policy import READS
from aop.tickets.ports import BranchWork, DocsPort, KnownTool, MergeRequest, PublishedNote, Ticket, TrackerPort, VcsPort
from aop.tickets.runs.runner import pipeline_of
from aop.tickets.scaffold_plan import PlannedFile
from aop.tickets.steps import Desk, Ending

DRY_RUN = RunId("dry-run")

Note = Callable[[Mapping[str, Json]], None]


async def dry_run(kind: str, key: str, desk: Desk, note: Note) -> Ending:
    """Do a kind of work on a ticket without writing: each write is noted instead."""
    ticket = await desk.tracker.get_ticket(key)
    dry = msgspec.structs.replace(desk, tracker=DryTracker(desk.tracker, note), vcs=DryVcs(desk.vcs, note))
    return await pipeline_of(kind, dry)(DirectRun(), msgspec.to_builtins(ticket))


class DirectRun:
    """Implements `aop.core.run.Steps`; such a run cannot be continued."""

    run_id = DRY_RUN

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        return await do()


class ForgetfulLedger:
    """Implements `aop.tickets.steps.Ledger`, and stores nothing."""

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        """Keep nothing."""

    def record_end(self, run_id: RunId, at: str, state: str) -> None:
        """Keep nothing."""

    def has_left(self, kind: str, ticket: str, step: str) -> bool:
        """Know of nothing."""
        return False


class _DryPort:
    def __init__(self, port: TrackerPort | VcsPort | DocsPort, note: Note) -> None:
        self._port = port
        self._note = note

    @property
    def known_tools(self) -> Mapping[str, KnownTool]:
        return self._port.known_tools

    async def get_mcp_tools(self) -> Sequence[Offer]:
        """Return the tools of the server; a model's writes go through the operations below."""
        return await self._port.get_mcp_tools()

    async def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool that only reads."""
        if not any(known.tool == name for operation, known in self.known_tools.items() if operation in READS):
            raise Fault("A dry run can only read.")
        return await self._port.execute_tool(name, arguments)


class DryTracker(_DryPort):
    """Implements `aop.tickets.ports.TrackerPort`."""

    def __init__(self, port: TrackerPort, note: Note) -> None:
        super().__init__(port, note)
        self._tracker = port

    async def get_ticket(self, key: str) -> Ticket:
        return await self._tracker.get_ticket(key)

    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        self._note({"operation": "add_comment", "key": key, "text": text})

    async def update_task_description(self, key: str, addition: str) -> None:
        self._note({"operation": "update_task_description", "key": key, "addition": addition})

    async def update_status(self, key: str, state: str) -> None:
        """Note it, if it is possible."""
        await self._tracker.check_status(key, state)
        self._note({"operation": "update_status", "key": key, "state": state})

    async def check_status(self, key: str, state: str) -> None:
        await self._tracker.check_status(key, state)


class DryVcs(_DryPort):
    """Implements `aop.tickets.ports.VcsPort`."""

    def __init__(self, port: VcsPort, note: Note) -> None:
        super().__init__(port, note)
        self._vcs = port
        self._opened: MergeRequest | None = None

    async def resolve_project(self, project: str) -> str:
        return await self._vcs.resolve_project(project)

    async def validate_branch_existence(self, project: str, branch: str) -> bool:
        return await self._vcs.validate_branch_existence(project, branch)

    async def find_merge_request(self, project: str, branch: str) -> MergeRequest | None:
        """Read, or return the merge request that this run would have opened."""
        return self._opened or await self._vcs.find_merge_request(project, branch)

    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        return await self._vcs.get_merge_request(project, number)

    async def get_merge_request_diff(self, project: str, number: str) -> str:
        return await self._vcs.get_merge_request_diff(project, number)

    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        return await self._vcs.get_published_notes(project, number)

    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        text = msgspec.to_builtins(report)
        self._note({"operation": "publish_review", "project": project, "number": number, "report": text})

    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        self._note({"operation": "approve_merge_request", "project": project, "number": number, "head": head})

    async def create_branch(self, project: str, branch: str, *, base: str | None) -> None:
        """Note it, if the base exists."""
        if base is not None and not await self._vcs.validate_branch_existence(project, base):
            raise RemoteNotFound(f"The branch `{base}`, named as `target_base_branch`, does not exist.", branch=base)
        self._note({"operation": "create_branch", "project": project, "branch": branch, "base": base})

    async def find_work(self, project: str, branch: str, *, base: str | None, runs: str) -> BranchWork:
        return await self._vcs.find_work(project, branch, base=base, runs=runs)

    async def list_files(self, project: str, branch: str | None) -> Sequence[str]:
        return await self._vcs.list_files(project, branch)

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
        pushed: list[Json] = [{"path": file.path, "content": file.content} for file in files]
        self._note(
            {"operation": "commit_changes", "project": project, "branch": branch, "message": message, "files": pushed}
        )
        return DRY_RUN

    async def create_merge_request(
        self, project: str, branch: str, *, base: str | None, title: str, description: str
    ) -> MergeRequest:
        self._note({"operation": "create_merge_request", "project": project, "branch": branch, "title": title})
        url = f"{DRY_RUN}://{project}/-/merge_requests/1"
        self._opened = MergeRequest(number="1", url=url, state="opened", source_branch=branch, target_branch=base or "")
        return self._opened
