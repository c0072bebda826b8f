"""Every tool of the catalogue through MCP: a good call fits the published output schema, a bad one is refused whole.

A tool without a row fails `test_every_tool_has_a_row`. To add one: its name in `ROWS`, with `role` (one that may call
it), `stage` (how far the row's feature has to be), `good` (arguments that are answered with data; `{id}` stands for
the feature, and `feature_id` is added where the tool takes one), `bad` (arguments laid over the good ones, which are
refused) and `code` (how). A tool that only a person may use goes into `PERSONS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from msgspec import Struct

from aop.core.roles import Role
from aop.kernel.contracts.schemas import error_schema
from aop.kernel.gateway.calls import FeatureArguments
from aop.wiring.catalogue import CATALOGUE
from tests.forge.broker.shelves import keep, shelve
from tests.kernel.tools.worlds import patch_of
from tests.mcpserver.clients import Answer, Mcp, over_http, served, token_for
from tests.world import World, files, make_repository, plan_for

ORCHESTRATOR, PLANNER, BUILDER, QA, SWE = Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA, Role.SWE
STAGES = ("absent", "new", "planned", "patched", "ready")


FORGE_ROLES = (Role.SCOUT, Role.CODER, Role.FIXER, Role.FORGE_BUILDER)


def forge_token(world: World, role: Role) -> str:
    project = "wrens" if role is Role.CODER else "birds"
    return token_for(world, role, project=project, build=f"{project}-b1")


class Row(Struct, frozen=True, kw_only=True):
    role: Role = QA
    stage: str = "patched"
    good: Mapping[str, Any] = {}
    bad: Mapping[str, Any] = MappingProxyType({"no_such_argument": 1})
    code: str = "invalid_arguments"


def plan(feature: str, **changes: Any) -> dict[str, Any]:
    """Return a plan that no other row's plan collides with."""
    areas = {"allowed_areas": [f"src/{feature}"], "files": files(create=(f"src/{feature}/a.txt",))}
    return plan_for(feature, **{**areas, **changes})


PLAN, PATCH = plan("{id}"), patch_of("src/{id}/a.txt", "x")

ROWS: Mapping[str, Row] = {
    "collisions.scan": Row(),
    "evidence.latest": Row(stage="ready"),
    "evidence.verify": Row(stage="ready", bad={"anchor": {"seq": 1, "hash": "f" * 64}}, code="evidence_broken"),
    "feature.answer_comments": Row(
        role=BUILDER,
        good={"comments": [{"number": 1, "word": "declined", "reason": "It is right."}]},
        bad={"comments": [{"number": 1, "word": "declined"}]},
    ),
    "feature.discover_specs": Row(),
    "feature.get_context": Row(),
    "feature.ingest_spec": Row(
        role=ORCHESTRATOR,
        stage="new",
        good={"text": "Do it.\n", "source_path": "specs/do-it.md"},
        bad={"text": ""},
    ),
    "feature.init": Row(role=ORCHESTRATOR, stage="absent", bad={"expected_version": "1"}),
    "feature.log_append": Row(good={"note": "Looked at it."}, bad={"note": ""}),
    "feature.state_get": Row(),
    "feature.state_patch": Row(
        role=ORCHESTRATOR,
        stage="new",
        good={"expected_version": 1, "patch": {"role_status": {"qa": "done"}}},
        bad={"expected_version": 7, "patch": {"role_status": {"qa": "done"}}},
        code="version_conflict",
    ),
    "feature.trees": Row(),
    "forge_ask_clarification": Row(
        role=Role.SCOUT,
        stage="absent",
        good={"question": "Which way?"},
        bad={"question": None, "question_id": "q77"},
        code="unknown_question",
    ),
    "forge_get_artifact": Row(
        role=ORCHESTRATOR,
        stage="absent",
        good={"project_id": "birds", "type": "plan", "key": "one"},
        bad={"key": "two"},
        code="unknown_artifact",
    ),
    "forge_get_branch_status": Row(
        role=ORCHESTRATOR,
        stage="absent",
        good={"build_cycle_id": "birds-b1"},
        bad={"build_cycle_id": "another"},
        code="unknown_build",
    ),
    "forge_get_build_contracts": Row(
        role=Role.FIXER, stage="absent", bad={"build_id": "another"}, code="unknown_build"
    ),
    "forge_get_contract": Row(
        role=Role.SCOUT, stage="absent", good={"name": "stack"}, bad={"name": "nothing"}, code="unknown_contract"
    ),
    "forge_get_phase_window": Row(
        role=Role.SCOUT, stage="absent", good={"phase_number": 0}, bad={"phase_number": 99}, code="unknown_phase"
    ),
    "forge_get_project_context": Row(
        role=Role.SCOUT, stage="absent", bad={"project_id": "another"}, code="unknown_project"
    ),
    "forge_get_project_contract": Row(
        role=Role.SCOUT,
        stage="absent",
        good={"contract_type": "stack"},
        bad={"section": "Nothing"},
        code="unknown_section",
    ),
    "forge_get_summary": Row(role=Role.SCOUT, stage="absent"),
    "forge_list_branch_commits": Row(
        role=ORCHESTRATOR,
        stage="absent",
        good={"build_cycle_id": "birds-b1"},
        bad={"build_cycle_id": "another"},
        code="unknown_build",
    ),
    "forge_list_contracts": Row(role=Role.SCOUT, stage="absent"),
    "forge_list_project_contracts": Row(
        role=Role.SCOUT, stage="absent", bad={"project_id": "another"}, code="unknown_project"
    ),
    "forge_read_notepad": Row(role=Role.SCOUT, stage="absent"),
    "forge_report_progress": Row(
        role=Role.CODER,
        stage="absent",
        bad={"event": {"type": "task_done", "number": 1}},
        code="other_roles_turn",
    ),
    "forge_scratchpad": Row(role=Role.FIXER, stage="absent", good={"operation": "list"}, bad={"operation": "read"}),
    "forge_set_session": Row(
        role=ORCHESTRATOR,
        stage="absent",
        good={"project_id": "birds"},
        bad={"project_id": "another"},
        code="unknown_project",
    ),
    "gates.list": Row(bad={"profile": "nobody"}, code="unknown_gate_profile_or_mode"),
    "gates.log": Row(stage="ready", good={"run": "fast"}, bad={"run": "none"}, code="file_not_found"),
    "gates.run": Row(role=BUILDER, good={"mode": "fast"}, bad={"mode": "slow"}),
    "gates.status": Row(
        stage="ready", good={"operation_id": "{id}"}, bad={"operation_id": "x"}, code="unknown_operation"
    ),
    "inbox.ask": Row(
        role=ORCHESTRATOR, good={"gate": "question", "text": "Which one?"}, bad={"gate": "a party invitation"}
    ),
    "inbox.ask_path": Row(
        role=BUILDER,
        good={"path": ".gitignore", "reason": "It makes a folder."},
        bad={"path": "agentic/x", "reason": "It wants more."},
        code="protected_path",
    ),
    "inbox.list": Row(),
    "locks.acquire": Row(role=ORCHESTRATOR, good={"resource": "openapi"}, bad={"resource": ""}),
    "locks.release": Row(role=ORCHESTRATOR, good={"resource": "events"}, bad={"resource": 1}),
    "plan.get": Row(role=PLANNER),
    "plan.submit": Row(
        role=PLANNER,
        stage="new",
        good={"plan_json": PLAN},
        bad={"plan_json": {**PLAN, "gate_profile": "nobody"}},
        code="unknown_gate_profile_or_mode",
    ),
    "plan.update": Row(
        role=PLANNER,
        stage="planned",
        good={"plan_json": {**PLAN, "plan_version": 2, "revision_of": 1}, "expected_plan_version": 1},
        bad={"plan_json": {**PLAN, "plan_version": 2, "revision_of": 1}, "expected_plan_version": 5},
        code="version_conflict",
    ),
    "plan.versions": Row(bad={"old": 9}),
    "plan.waves": Row(),
    "qa.test_index_get": Row(),
    "qa.test_index_update": Row(
        good={"expected_version": 1, "updates": [{"path": "src/{id}/a.txt", "status": "running"}]},
        bad={"expected_version": 7, "updates": [{"path": "src/{id}/a.txt", "status": "running"}]},
        code="qa_index_version_conflict",
    ),
    "repo.apply_patch": Row(
        role=BUILDER,
        stage="planned",
        good={"unified_diff": PATCH},
        bad={"unified_diff": patch_of("src/b.txt", "x", old=("alpha", "beta"))},
        code="area_not_allowed",
    ),
    "repo.diff": Row(bad={"options": {"output": "x"}}),
    "repo.diff_bundle": Row(),
    "repo.ensure_worktree": Row(role=ORCHESTRATOR),
    "repo.read_file": Row(
        good={"path": "src/{id}/a.txt"}, bad={"path": "../../../../etc/hostname"}, code="path_out_of_bounds"
    ),
    "repo.search": Row(good={"query": "x"}, bad={"query": "(", "regex": True}),
    "repo.status": Row(),
    "report.cards": Row(),
    "report.costs": Row(role=ORCHESTRATOR),
    "report.dashboard": Row(),
    "report.failures": Row(role=ORCHESTRATOR),
    "report.feature_summary": Row(),
    "report.journal": Row(role=ORCHESTRATOR, good={"text": "patch"}, bad={"limit": 0}),
    "report.merges": Row(),
    "report.past": Row(role=ORCHESTRATOR, good={"seq": 1}, bad={"seq": -1}),
    "report.search": Row(role=ORCHESTRATOR, good={"text": "a"}, bad={"text": ""}),
    "report.times": Row(role=ORCHESTRATOR),
    "submit_note": Row(role=BUILDER, good={"note": "Seen."}, bad={"note": ""}),
    "submit_patch": Row(role=BUILDER, good={"unified_diff": PATCH}, bad={"unified_diff": ""}),
    "submit_plan": Row(role=PLANNER, good={"plan": PLAN}, bad={"plan": {}}),
    "submit_request": Row(role=BUILDER, good={"request": "context"}, bad={"request": "money"}),
    "gated.status": Row(role=ORCHESTRATOR, stage="absent"),
    "get_task": Row(role=SWE, stage="absent"),
    "list_directory": Row(role=SWE, stage="absent", bad={"path": "no/such/folder"}, code="file_not_found"),
    "read_file": Row(
        role=SWE,
        stage="absent",
        good={"file_path": "README.md"},
        bad={"file_path": ".git/config"},
        code="path_out_of_bounds",
    ),
    "check_syntax": Row(
        role=Role.FORGE_BUILDER,
        stage="absent",
        good={"file_path": "README.md"},
        bad={"file_path": "no/such/file"},
        code="file_not_found",
    ),
    "edit_file": Row(
        role=Role.FORGE_BUILDER,
        stage="absent",
        good={"path": "src/b.txt", "edits": [{"old": "beta", "new": "gamma"}]},
        bad={"edits": [{"old": "omega", "new": "x"}]},
        code="patch_does_not_apply",
    ),
    "run_command": Row(
        role=Role.FORGE_BUILDER,
        stage="absent",
        good={"command": "python -m unittest --help"},
        bad={"command": "curl localhost"},
        code="command_not_allowed",
    ),
    "run_tests": Row(
        role=Role.FORGE_BUILDER,
        stage="absent",
        good={"command": "python -m unittest --help"},
        bad={"command": "pytest; id"},
    ),
    "write_file": Row(
        role=Role.FORGE_BUILDER,
        stage="absent",
        good={"path": "src/new.py", "content": "x = 1\n"},
        bad={"path": "Forge/Contracts/stack.md"},
        code="protected_path",
    ),
    "search_code": Row(role=SWE, stage="absent", good={"query": "x"}, bad={"query": "(", "regex": True}),
    "safe_patch": Row(
        role=SWE,
        stage="absent",
        good={
            "file_path": "ACTIVE_PR.json",
            "unified_diff": patch_of("ACTIVE_PR.json", "{}"),
            "base_content_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        },
        bad={"file_path": "README.md"},
        code="out_of_step",
    ),
    "submit_work": Row(role=SWE, stage="absent", good={"summary": "Planned."}, bad={"summary": ""}),
}
LOCKED = {"escalate_for_external_help", "request_scope_reduction"}
"""Refused until several attempts have failed: `tests/gated` has that."""
PERSONS = {
    "failures.mark",
    "feature.approve",
    "feature.begin_anew",
    "feature.comment",
    "feature.comment_delete",
    "feature.comment_edit",
    "feature.comments",
    "feature.delete",
    "feature.hand_requests",
    "feature.mark_viewed",
    "feature.ready_to_merge",
    "feature.redo",
    "feature.reject",
    "feature.request_changes",
    "feature.retry",
    "feature.stop",
    "feature.undo",
    "forge_abandon_branch",
    "forge_create_branch",
    "forge_seal_branch",
    "gated.reset",
    "gated.resume",
    "gated.start",
    "gates.check_base",
    "inbox.answer",
    "inbox.expire",
    "leftovers.clean_hub",
    "leftovers.note",
    "notices.note",
    "repo.commit",
    "repo.follow_base",
    "repo.merge",
    "repo.rebase_onto_main",
    "repo.sync",
    "repo.take_edits",
    "run.add",
    "run.began",
    "run.pause",
    "run.resume",
    "run.took",
    "run.wait",
    "run.waited",
    "usage.assign",
    "usage.begin",
    "usage.record",
}


FORGE_COMMANDS = {name for name in CATALOGUE if name.startswith("forge.")}
"""What the verbs of `aop forge` call: for a person, all of it."""


class Scene:
    """A served repository, and a client of each role."""

    def __init__(self, world: World, clients: Mapping[Role, Mcp]) -> None:
        self.world = world
        self.clients = clients
        self._shared = dict[str, str]()
        self._schemas = dict[Role, dict[str, Any]]()

    def call(self, tool: str, row: Row, arguments: Mapping[str, Any], *, feature: str) -> Answer:
        filled = json.loads(json.dumps(arguments).replace("{id}", feature))
        named = {"feature_id": feature} if issubclass(CATALOGUE[tool].arguments, FeatureArguments) else {}
        return self.clients[row.role].call(tool, {**named, **filled})

    def feature_at(self, stage: str, feature: str) -> str:
        reached = STAGES.index(stage)
        if reached >= 1:
            self.world.init(feature)
        if reached >= 2:
            self.world.ok("plan.submit", feature_id=feature, plan_json=plan(feature))
        if reached >= 3:
            self.world.patch(feature, PATCH.replace("{id}", feature))
        if reached >= 4:
            self.world.ok("gates.run", operation=feature, feature_id=feature, mode="fast")
        return feature

    def unchanged_feature_at(self, stage: str, feature: str) -> str:
        """Return a feature for a call that changes nothing: one serves all of a stage."""
        if stage == "absent":
            return feature
        if stage not in self._shared:
            self._shared[stage] = self.feature_at(stage, f"kept_{stage}")
        return self._shared[stage]

    def output_schema(self, role: Role, tool: str) -> Any:
        """Return a schema as it is published to a role."""
        if role not in self._schemas:
            self._schemas[role] = {each.name: each.output_schema for each in self.clients[role].tools()}
        return self._schemas[role][tool]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    world = World(make_repository(tmp_path_factory.mktemp("tools") / "repo"))
    world.ok("gated.start", feature_id="gated")
    shelve(world, "birds")
    world.ok("forge.build_begin", project_id="birds")
    # A coder is one of a team.
    shelve(world, "wrens")
    world.ok("forge.build_begin", project_id="wrens", crew="team")
    keep(world, "birds", "plan", "one", {"steps": []}, until="2999-01-01T00:00:00Z")
    with ExitStack() as stack:
        stack.callback(world.close)
        server = stack.enter_context(served(world.root))
        roles = {row.role for row in ROWS.values()}
        tokens = {role: forge_token(world, role) if role in FORGE_ROLES else token_for(world, role) for role in roles}
        yield Scene(world, {role: stack.enter_context(over_http(server.url, token)) for role, token in tokens.items()})


def test_every_tool_has_a_row() -> None:
    tools = {tool.name: tool.person_only for tool in CATALOGUE.values()}
    assert {name for name, person_only in tools.items() if not person_only} - ROWS.keys() == LOCKED
    assert {name for name, person_only in tools.items() if person_only} - PERSONS - FORGE_COMMANDS == set()


@pytest.mark.req("AOP-149", "AOP-328")
@pytest.mark.parametrize("tool", ROWS)
def test_a_good_call_is_answered_as_its_published_schema_says(scene: Scene, tool: str) -> None:
    row = ROWS[tool]
    at = scene.feature_at if CATALOGUE[tool].mutates else scene.unchanged_feature_at
    feature = at(row.stage, f"good_{tool.replace('.', '_')}")
    if tool == "locks.release":
        scene.world.ok("locks.acquire", feature_id=feature, resource="events")
    answer = scene.call(tool, row, row.good, feature=feature)
    assert (answer.is_error, answer.error) == (False, None), answer.text
    jsonschema.Draft202012Validator(scene.output_schema(row.role, tool)).validate(answer.structured)
    assert json.loads(answer.text) == answer.structured
    assert str(scene.world.root) not in answer.text


@pytest.mark.req("AOP-149", "AOP-318", "AOP-322")
@pytest.mark.parametrize("tool", ROWS)
def test_a_bad_call_is_refused_and_changes_nothing(scene: Scene, tool: str) -> None:
    row = ROWS[tool]
    feature = scene.unchanged_feature_at(row.stage, f"bad_{tool.replace('.', '_')}")
    before = scene.world.fingerprint()
    answer = scene.call(tool, row, {**row.good, **row.bad}, feature=feature)
    assert (answer.code, answer.structured) == (row.code, None), answer.text
    line, _, body = answer.text.partition("\n")
    assert line == f"{row.code}: {answer.error['error']['message']}"
    assert json.loads(body) == answer.error
    jsonschema.Draft202012Validator(error_schema()).validate(answer.error)
    assert str(scene.world.root) not in answer.text
    assert scene.world.fingerprint() == before


@pytest.mark.parametrize("tool", ROWS)
def test_a_tool_answers_to_its_name_without_a_dot(scene: Scene, tool: str) -> None:
    row = ROWS[tool]
    code = scene.clients[row.role].call(tool.replace(".", "_"), {"no_such_argument": 1}).code
    assert code == "invalid_arguments"
