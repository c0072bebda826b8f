"""Local ports: LOCAL as tracker, version control system and documentation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from aop.adapters.tickets.mcp.operation_table import TablePort
from aop.adapters.tickets.systems.file_lists import files_below
from aop.core.errors import Json, RemoteNotFound, RemoteRejected
from aop.reviews.report import CodeReviewReport
from aop.tickets.comments import has_marker, has_marker_of, with_marker
from aop.tickets.ports import BranchWork, KnownTool, MergeRequest, PublishedNote, Ticket, taken_branch
from aop.tickets.review.texts import missing_notes
from aop.tickets.scaffold_plan import PlannedFile, existing_files

_KEY = {"key": "key"}
_WHERE = {"project": "project"}
_BRANCH = {**_WHERE, "branch": "branch"}
_NUMBER = {**_WHERE, "number": "number"}

TABLE: Mapping[str, KnownTool] = {
    "get_ticket": KnownTool("tracker_get_ticket", _KEY),
    "add_comment": KnownTool("tracker_add_comment", {**_KEY, "text": "body"}),
    "update_description": KnownTool("tracker_set_description", {**_KEY, "text": "description"}),
    "list_transitions": KnownTool("tracker_get_transitions", _KEY),
    "do_transition": KnownTool("tracker_transition", {**_KEY, "transition": "transition_id"}),
    "get_project": KnownTool("vcs_get_project", _WHERE),
    "get_branch": KnownTool("vcs_get_branch", _BRANCH),
    "list_tree": KnownTool("vcs_list_tree", {**_WHERE, "ref": "ref", "path": "path"}),
    "read_file": KnownTool("vcs_read_file", {**_WHERE, "ref": "ref", "path": "path"}),
    "create_branch": KnownTool("vcs_create_branch", {**_BRANCH, "base": "ref"}),
    "commit": KnownTool("vcs_push_files", {**_BRANCH, "message": "message", "files": "files"}),
    "create_merge_request": KnownTool(
        "vcs_create_merge_request",
        {**_WHERE, "branch": "source_branch", "base": "target_branch", "title": "title", "text": "description"},
    ),
    "list_merge_requests": KnownTool("vcs_list_merge_requests", {**_WHERE, "branch": "source_branch"}),
    "get_merge_request": KnownTool("vcs_get_merge_request", _NUMBER),
    "get_diff": KnownTool("vcs_get_merge_request_diff", _NUMBER),
    "list_notes": KnownTool("vcs_list_notes", _NUMBER),
    "add_note": KnownTool("vcs_add_note", {**_NUMBER, "text": "body", "path": "path", "line": "line"}),
    "get_page": KnownTool("docs_get_page", {"page": "page_id"}),
    "search_pages": KnownTool("docs_search", {"words": "words"}),
}
APPROVAL: Mapping[str, KnownTool] = {"approve": KnownTool("vcs_approve_merge_request", {**_NUMBER, "head": "sha"})}


class _LocalPort(TablePort):
    table = TABLE
    ours = APPROVAL


class LocalTracker(_LocalPort):
    """Implements `aop.tickets.ports.TrackerPort`."""

    prefix = "tracker_"

    async def get_ticket(self, key: str) -> Ticket:
        return msgspec.convert(await self._call("get_ticket", key=key), type=Ticket)

    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        known = (await self._call("get_ticket", key=key))["comments"]
        if not any(has_marker(comment, marker) for comment in known):
            await self._call("add_comment", key=key, text=with_marker(text, marker))

    async def update_task_description(self, key: str, addition: str) -> None:
        description = (await self._call("get_ticket", key=key))["description"]
        if addition not in description:
            await self._call("update_description", key=key, text=f"{description.rstrip()}\n\n{addition}\n")

    async def update_status(self, key: str, state: str) -> None:
        found = await self._transition(key, state)
        if found is not None:
            await self._call("do_transition", key=key, transition=found)

    async def check_status(self, key: str, state: str) -> None:
        await self._transition(key, state)

    async def _transition(self, key: str, state: str) -> int | None:
        wanted = state.casefold()
        if (await self._call("get_ticket", key=key))["status"].casefold() == wanted:
            return None
        known = await self._call("list_transitions", key=key)
        found = [int(each["id"]) for each in known if wanted in (each["name"].casefold(), each["to"].casefold())]
        if not found:
            names: list[Json] = [each["to"] for each in known]
            raise RemoteRejected(
                f"`{key}` has no transition to `{state}`.",
                states=names,
                hint="Set the variable of the state to one that the ticket can reach.",
            )
        return found[0]


class LocalVcs(_LocalPort):
    """Implements `aop.tickets.ports.VcsPort`."""

    prefix = "vcs_"

    async def resolve_project(self, project: str) -> str:
        return str((await self._call("get_project", project=project))["id"])

    async def validate_branch_existence(self, project: str, branch: str) -> bool:
        # A missing project must not look like a project without this branch.
        await self._call("get_project", project=project)
        try:
            await self._call("get_branch", project=project, branch=branch)
        except RemoteNotFound:
            return False
        return True

    async def create_branch(self, project: str, branch: str, *, base: str | None) -> None:
        base = await self._base(project, base)
        if not await self.validate_branch_existence(project, branch):
            await self._call("create_branch", project=project, branch=branch, base=base)
            return
        heads = [(await self._call("get_branch", project=project, branch=name))["commit"] for name in (branch, base)]
        if heads[0]["id"] != heads[1]["id"]:
            raise taken_branch(branch)

    async def find_work(self, project: str, branch: str, *, base: str | None, runs: str) -> BranchWork:
        names = (branch, await self._base(project, base))
        head, start = [(await self._call("get_branch", project=project, branch=name))["commit"] for name in names]
        is_ours = head["id"] != start["id"] and has_marker_of(head["message"], runs)
        return BranchWork(is_empty=head["id"] == start["id"], commit=str(head["id"]) if is_ours else "")

    async def list_files(self, project: str, branch: str | None) -> Sequence[str]:
        ref = await self._base(project, branch)

        async def listed(folder: str) -> Any:
            rows = await self._call("list_tree", project=project, ref=ref, path=folder)
            return [{**row, "path": f"{folder}/{row['path']}" if folder else row["path"]} for row in rows]

        return await files_below(listed)

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
        head = (await self._call("get_branch", project=project, branch=branch))["commit"]
        if has_marker(head["message"], marker):
            return str(head["id"])
        taken = [file.path for file in files if await self._has_file(project, branch, file.path)]
        if kept := [path for path in taken if path not in may_replace]:
            raise existing_files(kept)
        pushed = [{"path": file.path, "content": file.content} for file in files]
        made = await self._call(
            "commit", project=project, branch=branch, message=with_marker(message, marker), files=pushed
        )
        return str(made["commit"])

    async def find_merge_request(self, project: str, branch: str) -> MergeRequest | None:
        found = await self._call("list_merge_requests", project=project, branch=branch)
        return _merge_request(found[0]) if found else None

    async def create_merge_request(
        self, project: str, branch: str, *, base: str | None, title: str, description: str
    ) -> MergeRequest:
        found = await self.find_merge_request(project, branch)
        if found is not None and found.state == "opened":
            return found
        base = await self._base(project, base)
        made = await self._call(
            "create_merge_request", project=project, branch=branch, base=base, title=title, text=description
        )
        return _merge_request(made)

    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        return _merge_request(await self._call("get_merge_request", project=project, number=int(number)))

    async def get_merge_request_diff(self, project: str, number: str) -> str:
        return str((await self._call("get_diff", project=project, number=int(number)))["diff"])

    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        notes = await self._call("list_notes", project=project, number=int(number))
        return [PublishedNote(body=note["body"]) for note in notes]

    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        where = {"project": project, "number": int(number)}
        known = [note.body for note in await self.get_published_notes(project, number)]
        for note in missing_notes(report, known, marker=marker):
            await self._call("add_note", **where, text=note.text, path=note.path, line=note.line)

    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        await self._call("approve", project=project, number=int(number), head=head)

    async def _has_file(self, project: str, branch: str, path: str) -> bool:
        try:
            await self._call("read_file", project=project, ref=branch, path=path)
        except RemoteNotFound:
            return False
        return True

    async def _base(self, project: str, base: str | None) -> str:
        return base or str((await self._call("get_project", project=project))["default_branch"])


class LocalDocs(_LocalPort):
    """Implements `aop.tickets.ports.DocsPort`."""

    prefix = "docs_"

    async def get_project_context(self, service_name: str) -> str:
        pages = (await self._call("search_pages", words=service_name))["pages"]
        return "\n\n".join([(await self._call("get_page", page=page))["text"] for page in pages])

    async def get_architecture_context(self, page_id: str) -> str:
        return str((await self._call("get_page", page=page_id))["text"])


def _merge_request(found: Mapping[str, Any]) -> MergeRequest:
    return msgspec.convert({**found, "number": str(found["number"])}, type=MergeRequest)
