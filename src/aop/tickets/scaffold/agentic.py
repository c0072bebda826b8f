"""Agentic scaffold: the writes of a model, bound to the mission, each done once."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import AgentStopped, ToolCallDenied
from aop.tickets.loop.tool_calls import LIST_EVERYTHING, MissionTools
from aop.tickets.loop.tool_policy import AllowedTool, CommitFiles, Message
from aop.tickets.mission.blocks import ScaffoldingMission
from aop.tickets.mission.descriptions import blocks_in
from aop.tickets.ports import MergeRequest
from aop.tickets.safe_text import harmless_text, without_secrets
from aop.tickets.scaffold import texts
from aop.tickets.scaffold_plan import ScaffoldPlan, validate_plan
from aop.tickets.steps import Desk, TicketSteps

MOST_COMMENTS = 5
WANTED = ("create_branch", "commit", "create_merge_request")


class ScaffoldDone(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a model that has opened the merge request."""

    summary: Annotated[str, Meta(min_length=1, max_length=2_000)]


class AgenticScaffold:
    """The tools of one scaffold, and the check of their result."""

    def __init__(
        self, desk: Desk, steps: TicketSteps, key: str, mission: ScaffoldingMission, tools: tuple[AllowedTool, ...]
    ):
        self._desk = desk
        self._steps = steps
        self._key = key
        self._mission = mission
        target = mission.target
        self._project, self._branch, self._base = (
            target.gitlab_project_path, target.branch_slug, target.target_base_branch,
        )  # fmt: skip
        held = {
            **LIST_EVERYTHING,
            "key": key,
            "project": self._project,
            "branch": self._branch,
            "transition": desk.settings.state_success,
        }
        if self._base is not None:
            held["base"] = self._base
        self.tools = MissionTools(
            desk,
            steps,
            tools,
            held,
            {
                "create_branch": self._create_branch,
                "commit": self._commit,
                "create_merge_request": self._create_merge_request,
                "add_comment": self._add_comment,
                "update_description": self._update_description,
                "do_transition": self._do_transition,
            },
        )

    async def check_result(self) -> dict[str, Any]:
        """Return the commit and the merge request. Raises: AgentStopped."""
        missing = [name for name in WANTED if not self.has_made(name)]
        found = None if missing else await self._desk.vcs.find_merge_request(self._project, self._branch)
        if found is None or found.state != "opened":
            lacks = ", ".join(f"`{name}`" for name in missing) or "an open merge request"
            raise AgentStopped(f"The model reported success, but there is no {lacks}.", cause="not_done")
        commits = self.tools.done.get("commit", [])
        answer = msgspec.json.decode(str(commits[0])) if commits else {}
        return {"commit": answer.get("commit", ""), "merge_request": found}

    @property
    def opened_url(self) -> str:
        """Return the address of the merge request that the model opened, or an empty text."""
        opened = self.tools.done.get("create_merge_request", [])
        return str(msgspec.json.decode(str(opened[0]))["url"]) if opened else ""

    def has_made(self, operation: str) -> bool:
        """Tell whether this run did an operation, by the model or in the fixed steps before."""
        linear = "open_merge_request" if operation == "create_merge_request" else operation
        return operation in self.tools.done or linear in self._steps.reached

    async def _create_branch(self, _given: Any) -> Any:
        if not self.has_made("create_branch"):
            await self._desk.vcs.create_branch(self._project, self._branch, base=self._base)
        return {"branch": self._branch}

    async def _commit(self, given: CommitFiles) -> Any:
        if not self.has_made("create_branch"):
            raise ToolCallDenied("The branch does not exist yet.", hint="Create the branch first.")
        if self.has_made("commit"):
            return {"committed": False, "why": "This run has its one commit already; nothing was added."}
        allowed = self._mission.may_write
        plan = validate_plan(
            ScaffoldPlan(files=given.files, summary="Committed."), self._desk.redact, may_write=allowed
        )
        message = self._desk.redact(texts.commit_message(self._key, self._mission))
        marker = self._steps.marker("commit")
        commit = await self._desk.vcs.commit_changes(
            self._project, self._branch, message, plan.files, marker=marker, may_replace=allowed
        )
        return {"commit": commit}

    async def _create_merge_request(self, given: Message) -> Any:
        if not self.has_made("commit"):
            raise ToolCallDenied("There is nothing to merge yet.", hint="Commit the files first.")
        about = harmless_text(without_secrets(given.text, self._desk.redact))
        opened: MergeRequest = await self._desk.vcs.create_merge_request(
            self._project,
            self._branch,
            base=self._base,
            title=self._desk.redact(texts.merge_request_title(self._key, self._mission)),
            description=f"Generated for {self._key}.\n\n{about}",
        )
        return opened

    async def _add_comment(self, given: Message) -> Any:
        if len(self.tools.done.get("add_comment", ())) >= MOST_COMMENTS:
            raise ToolCallDenied(
                f"The limit of {MOST_COMMENTS} comments is reached.", hint="Continue without a comment."
            )
        text = harmless_text(without_secrets(given.text, self._desk.redact))
        # The marker depends on the text: a model that lost the answer repeats its comment.
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        await self._desk.tracker.add_comment(self._key, text, marker=self._steps.marker(f"comment/{digest}"))
        return {"commented": True}

    async def _update_description(self, given: Message) -> Any:
        text = harmless_text(without_secrets(given.text, self._desk.redact))
        if blocks_in(text):
            raise ToolCallDenied("A description must not get code blocks.", hint="Write a paragraph of prose.")
        await self._desk.tracker.update_task_description(self._key, text)
        return {"appended": True}

    async def _do_transition(self, _given: Any) -> Any:
        state = self._desk.settings.state_success
        await self._desk.tracker.update_status(self._key, state)
        return {"status": state}
