"""GitLab as the version control system, through `@zereight/mcp-gitlab`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aop.adapters.tickets.mcp.operation_table import TablePort
from aop.adapters.tickets.mcp.retries import with_retries
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.systems.file_lists import files_below
from aop.adapters.tickets.systems.gitlab_diffs import Position, positions, unified_diff
from aop.core.errors import RemoteNotFound, RemoteRejected
from aop.reviews.report import CodeReviewReport
from aop.tickets.comments import has_marker, has_marker_of, with_marker
from aop.tickets.ports import BranchWork, KnownTool, MergeRequest, PublishedNote, taken_branch
from aop.tickets.review.texts import ReviewNote, missing_notes
from aop.tickets.scaffold_plan import PlannedFile, existing_files

PAGE = 100
COMMITS_LOOKED_AT = 20

_WHERE = {"project": "project_id"}
_NUMBER = {**_WHERE, "number": "merge_request_iid"}
_PAGES = {"page": "page", "most": "per_page"}

TABLE: Mapping[str, KnownTool] = {
    "get_project": KnownTool("get_project", _WHERE),
    "get_branch": KnownTool("get_branch", {**_WHERE, "branch": "branch_name"}),
    "create_branch": KnownTool("create_branch", {**_WHERE, "branch": "branch", "base": "ref"}),
    "list_commits": KnownTool("list_commits", {**_WHERE, "branch": "ref_name", "most": "per_page"}),
    "read_file": KnownTool("get_file_contents", {**_WHERE, "path": "file_path", "ref": "ref"}),
    "list_tree": KnownTool("get_repository_tree", {**_WHERE, "path": "path", "ref": "ref"}),
    "commit": KnownTool("push_files", {**_WHERE, "branch": "branch", "message": "commit_message", "files": "files"}),
    "create_merge_request": KnownTool(
        "create_merge_request",
        {**_WHERE, "branch": "source_branch", "base": "target_branch", "title": "title", "text": "description"},
    ),
    "list_merge_requests": KnownTool(
        "list_merge_requests", {**_WHERE, "branch": "source_branch", "state": "state", "whose": "scope"}
    ),
    "get_merge_request": KnownTool("get_merge_request", _NUMBER),
    "list_diffs": KnownTool("list_merge_request_diffs", {**_NUMBER, **_PAGES}),
    "list_notes": KnownTool("get_merge_request_notes", {**_NUMBER, **_PAGES}),
    "add_note": KnownTool("create_merge_request_note", {**_NUMBER, "text": "body"}),
    "add_thread": KnownTool("create_merge_request_thread", {**_NUMBER, "text": "body", "position": "position"}),
    "who_am_i": KnownTool("whoami", {}),
}
APPROVAL: Mapping[str, KnownTool] = {
    "get_approvals": KnownTool("get_merge_request_approval_state", _NUMBER),
    "approve": KnownTool("approve_merge_request", {**_NUMBER, "head": "sha"}),
}


def denied_tools(*, may_approve: bool) -> str:
    """Return a pattern of all tools except ours; the server ignores one of more than 200 characters."""
    state, approve = ("|_ap.*", "|approve_m.*") if may_approve else ("", "")
    return (
        f"^(?!(whoami|push_files|get_(project|branch|file_c.*|repository_tree|merge_request(|_notes{state}))"
        f"|list_(commits|merge_request(s|_diffs))|create_(branch|merge_request(|_note|_thread)){approve})$)"
    )


class GitlabVcs(TablePort):
    """Implements `aop.tickets.ports.VcsPort`."""

    table = TABLE
    ours = APPROVAL

    def __init__(self, upstream: Upstream, *, waits: Sequence[float], groups: Sequence[str] = ()) -> None:
        super().__init__(upstream)
        self.waits = waits
        self._groups = groups
        self._allowed: set[str] = set()

    @with_retries
    async def resolve_project(self, project: str) -> str:
        return str((await self._project(project))["id"])

    @with_retries
    async def validate_branch_existence(self, project: str, branch: str) -> bool:
        # A missing project must not look like a project without this branch.
        await self._project(project)
        return await self._head(project, branch) is not None

    @with_retries
    async def create_branch(self, project: str, branch: str, *, base: str | None) -> None:
        base = base or str((await self._project(project))["default_branch"])
        head = await self._head(project, branch)
        if head is None:
            await self._call("create_branch", project=project, branch=branch, base=base)
        elif head != await self._head(project, base):
            raise taken_branch(branch)

    @with_retries
    async def find_work(self, project: str, branch: str, *, base: str | None, runs: str) -> BranchWork:
        base = base or str((await self._project(project))["default_branch"])
        head = (await self._call("get_branch", project=project, branch=branch))["commit"]
        is_empty = head["id"] == await self._head(project, base)
        is_ours = not is_empty and has_marker_of(str(head.get("message") or ""), runs)
        return BranchWork(is_empty=is_empty, commit=str(head["id"]) if is_ours else "")

    @with_retries
    async def list_files(self, project: str, branch: str | None) -> Sequence[str]:
        ref = branch or str((await self._project(project))["default_branch"])
        return await files_below(lambda folder: self._call("list_tree", project=project, ref=ref, path=folder))

    @with_retries
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
        await self._check(project)
        known = await self._call("list_commits", project=project, branch=branch, most=COMMITS_LOOKED_AT)
        made = next((each for each in known if has_marker(each["message"], marker)), None)
        if made is None:
            made = await self._commit(project, branch, with_marker(message, marker), files, may_replace)
        return str(made["id"])

    @with_retries
    async def find_merge_request(self, project: str, branch: str) -> MergeRequest | None:
        return await self._newest(project, branch)

    @with_retries
    async def create_merge_request(
        self, project: str, branch: str, *, base: str | None, title: str, description: str
    ) -> MergeRequest:
        found = await self._newest(project, branch)
        if found is not None and found.state == "opened":
            return found
        base = base or str((await self._project(project))["default_branch"])
        made = await self._call(
            "create_merge_request", project=project, branch=branch, base=base, title=title, text=description
        )
        return _merge_request(made)

    @with_retries
    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        await self._check(project)
        return _merge_request(await self._call("get_merge_request", project=project, number=number))

    @with_retries
    async def get_merge_request_diff(self, project: str, number: str) -> str:
        await self._check(project)
        return unified_diff(await self._all("list_diffs", project, number))

    @with_retries
    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        await self._check(project)
        notes = await self._all("list_notes", project, number)
        return [PublishedNote(body=note.get("body") or "", resolved=bool(note.get("resolved"))) for note in notes]

    @with_retries
    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        await self._check(project)
        known = [note.get("body") or "" for note in await self._all("list_notes", project, number)]
        missing = missing_notes(report, known, marker=marker)
        places: Mapping[tuple[str, int], Position] = {}
        if any(note.line is not None for note in missing):
            shown = await self._call("get_merge_request", project=project, number=number)
            places = positions(await self._all("list_diffs", project, number), shown["diff_refs"])
        for note in missing:
            await self._publish(project, number, note, places)

    @with_retries
    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        await self._check(project)
        where = {"project": project, "number": number}
        known = await self._call("get_approvals", **where)
        if await self._name() not in known["approved_by_usernames"]:
            await self._call("approve", **where, head=head)

    @with_retries
    async def who_am_i(self) -> str:
        """Return the account name of the token."""
        return await self._name()

    async def _name(self) -> str:
        return str((await self._call("who_am_i"))["username"])

    async def _publish(
        self, project: str, number: str, note: ReviewNote, places: Mapping[tuple[str, int], Position]
    ) -> None:
        """Write a note at its line, or a general note that names the line if GitLab does not know it (REV-53)."""
        where = {"project": project, "number": number}
        if note.path is None or note.line is None:
            await self._call("add_note", **where, text=note.text)
            return
        position = places.get((note.path, note.line))
        try:
            if position is not None:
                await self._call("add_thread", **where, text=note.text, position=position)
                return
        except RemoteRejected as rejected:
            if rejected.facts["status"] != 400:
                raise
        await self._call("add_note", **where, text=f"`{note.path}`, line {note.line}:\n{note.text}")

    async def _commit(
        self, project: str, branch: str, message: str, files: Sequence[PlannedFile], may_replace: Collection[str]
    ) -> Any:
        pushed = [{"file_path": file.path, "content": file.content, "action": "create"} for file in files]
        where = {"project": project, "branch": branch}
        try:
            return await self._call("commit", **where, message=message, files=pushed)
        except RemoteRejected as rejected:
            # GitLab accepts a commit as a whole or not at all.
            if "already exists" not in rejected.message:
                raise
        taken = [file for file in pushed if await self._has_file(file["file_path"], **where)]
        if kept := [file["file_path"] for file in taken if file["file_path"] not in may_replace]:
            raise existing_files(kept)
        for file in taken:
            file["action"] = "update"
        return await self._call("commit", **where, message=message, files=pushed)

    async def _has_file(self, path: str, *, project: str, branch: str) -> bool:
        try:
            await self._call("read_file", project=project, path=path, ref=branch)
        except RemoteNotFound:
            return False
        return True

    async def _newest(self, project: str, branch: str) -> MergeRequest | None:
        await self._check(project)
        found = await self._call("list_merge_requests", project=project, branch=branch, state="all", whose="all")
        return max(map(_merge_request, found), key=lambda each: int(each.number), default=None)

    async def _head(self, project: str, branch: str) -> str | None:
        try:
            return str((await self._call("get_branch", project=project, branch=branch))["commit"]["id"])
        except RemoteNotFound:
            return None

    async def _all(self, operation: str, project: str, number: str) -> Sequence[Any]:
        """Return all pages of a list."""
        found: list[Any] = []
        while len(found) % PAGE == 0:
            page = await self._call(operation, project=project, number=number, page=len(found) // PAGE + 1, most=PAGE)
            if not page:
                break
            found += page
        return found

    async def _check(self, project: str) -> None:
        if self._groups and project not in self._allowed:
            await self._project(project)

    async def _project(self, project: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._call("get_project", project=project)
        path = str(found["path_with_namespace"])
        if self._groups and not any(path.startswith(f"{group.strip('/')}/") for group in self._groups):
            raise RemoteRejected(
                f"The project `{path}` is not in a group of `ALLOWLISTED_GROUPS`.",
                project=path,
                hint="Use a project of one of these groups, or add its group to `ALLOWLISTED_GROUPS`.",
            )
        self._allowed.add(project)
        return found


def _merge_request(found: Mapping[str, Any]) -> MergeRequest:
    return MergeRequest(
        number=str(found["iid"]),
        url=str(found["web_url"]),
        state=str(found["state"]),
        source_branch=str(found["source_branch"]),
        target_branch=str(found["target_branch"]),
        head=str(found.get("sha") or ""),
    )
