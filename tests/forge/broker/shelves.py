"""A repository with projects, contracts and pinned builds, and callers of the broker's tools with real tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import Artifact, artifact_key
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import TokenOrder
from tests.forge.projects import stored
from tests.forge.sample_contracts import CONTRACTS
from tests.world import World

BASE = ["forge_get_contract", "forge_get_summary", "forge_list_contracts", "forge_scratchpad"]
PROJECT = [*BASE, "forge_get_project_contract", "forge_list_project_contracts"]
BRANCH = ["forge_get_branch_status", "forge_list_branch_commits"]
PEOPLE = ["forge_ask_clarification", "forge_read_notepad"]
ROLE_TOOLS: Mapping[Role, list[str]] = {
    Role.FORGE_BUILDER: sorted([*BASE, *PEOPLE, "forge_get_phase_window", *BRANCH]),
    Role.SCOUT: sorted([*PROJECT, *PEOPLE, "forge_get_phase_window", "forge_get_project_context"]),
    Role.CODER: sorted([*PROJECT, *PEOPLE, "forge_get_phase_window", "forge_report_progress"]),
    Role.AUDITOR: sorted(PROJECT),
    Role.FIXER: ["forge_get_build_contracts", "forge_scratchpad"],
    Role.ORCHESTRATOR: sorted(["forge_get_artifact", "forge_set_session", *BRANCH]),
}
"""The tools for contracts of each role (FORGE-023, 100 to 103)."""


def shelve(world: World, project: str, contents: Mapping[ContractType, str] = CONTRACTS) -> str:
    """Begin a project and store its nine contracts; return its id."""
    made: str = world.ok("forge.project_new", name=project)["project_id"]
    stored(world, made, contents)
    return made


def edit(world: World, project: str, contract_type: ContractType, content: str) -> int:
    """Store a new version of one contract; return the number of the new batch."""
    return stored(world, project, {contract_type: content}, author="person:ada").number


def pin(world: World, project: str) -> str:
    """Pin a build to the newest batch of its project; return its id: the first is `PROJECT-b1`."""
    made: str = world.ok("forge.pin", project_id=project)["build_id"]
    return made


def keep(world: World, project: str, artifact_type: str, name: str, content: Any, *, until: str) -> None:
    """Keep an artifact of a project until a moment."""
    kept = Artifact(
        version=1,
        project_id=project,
        artifact_type=artifact_type,
        name=name,
        content=content,
        created_at="2026-11-17T08:00:00Z",
        expires_at=until,
    )
    with world.app.record.write() as tx:
        tx.put(kept, artifact_key(project, artifact_type, name))


class Agent:
    """A caller with a token of a role, restricted to a project, to a build, or to neither."""

    def __init__(self, world: World, role: Role, *, project: str | None = None, build: str | None = None) -> None:
        self.world = world
        order = TokenOrder(role=role, project_id=project, build_id=build)
        self.token = world.app.tokens.issue(order, by="person:ada").text

    @property
    def principal(self) -> Principal:
        return self.world.app.tokens.principal(self.token)

    def call(self, tool: str, **arguments: Any) -> Envelope:
        return self.world.app.gateway.call(self.principal, tool, arguments)

    def ok(self, tool: str, **arguments: Any) -> Any:
        answer = self.call(tool, **arguments)
        assert answer.ok, answer.error
        return answer.data

    def code(self, tool: str, **arguments: Any) -> Any:
        """Make a call that must be refused and change nothing; return the code."""
        return self.error(tool, **arguments)["code"]

    def error(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        before = self.world.fingerprint()
        answer = self.call(tool, **arguments)
        assert answer.error is not None, answer.data
        assert self.world.fingerprint() == before
        return answer.error
