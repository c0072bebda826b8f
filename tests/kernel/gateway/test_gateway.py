"""Gateway: who may call what, with which arguments, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec import Struct

from aop.core import errors
from aop.core.errors import Fault, Refusal
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import artifact_key
from aop.kernel.contracts.schemas import error_schema, tool_schemas
from aop.kernel.gateway.calls import Answer, Arguments, Call, FeatureArguments, Outcome, Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Transaction
from aop.wiring.catalogue import CATALOGUE
from tests.forge.broker.shelves import keep
from tests.forge.builds.built import commit_tree
from tests.forge.builds.cycles import coder
from tests.forge.sample_contracts import ANSWERS, CONTRACTS
from tests.gated.agents import NOTHING, active_pr
from tests.kernel.tools.worlds import patch_of
from tests.world import FILES, PATCH, World, files, make_repository, plan_for

FORBIDDEN = "forbidden_tool_for_role"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One managed repository for the tests that change nothing."""
    made = World(make_repository(tmp_path_factory.mktemp("shared") / "repo"))
    made.init("one")
    yield made
    made.close()


def world_with(tmp_path: Any, policy: str) -> World:
    return World(make_repository(tmp_path / "repo", {**FILES, "agentic/orchestrator/policy.yaml": policy}))


def worker(role: Role, *features: str) -> Principal:
    """Return a caller that holds a token; without features it reaches all of them."""
    scope = frozenset(map(FeatureId, features)) if features else None
    return Principal(role=role, actor=f"{role}:1", features=scope)


def code_of(world: World, who: Principal, tool: str, arguments: Any) -> str | None:
    error = world.app.gateway.call(who, tool, arguments).error
    return None if error is None else str(error["code"])


ORCHESTRATOR, PLANNER, BUILDER, QA, SWE = Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA, Role.SWE
EVERYBODY = {ORCHESTRATOR, PLANNER, BUILDER, QA}
FORGE_BUILDER, SCOUT, CODER, AUDITOR, FIXER = Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER
PERSON = "person"

MATRIX: Mapping[str, set[Role] | str] = {
    "check_syntax": {FORGE_BUILDER, CODER, FIXER},
    "collisions.scan": EVERYBODY,
    "edit_file": {FORGE_BUILDER, CODER, FIXER},
    "escalate_for_external_help": {SWE},
    "evidence.latest": EVERYBODY,
    "evidence.verify": EVERYBODY,
    "failures.mark": PERSON,
    "feature.answer_comments": {PLANNER, BUILDER, QA},
    "feature.approve": PERSON,
    "feature.begin_anew": set(),
    "feature.comment": PERSON,
    "feature.comment_delete": PERSON,
    "feature.comment_edit": PERSON,
    "feature.comments": PERSON,
    "feature.delete": PERSON,
    "feature.discover_specs": EVERYBODY,
    "feature.get_context": EVERYBODY,
    "feature.hand_requests": set(),
    "feature.ingest_spec": {ORCHESTRATOR},
    "feature.init": {ORCHESTRATOR},
    "feature.log_append": EVERYBODY,
    "feature.mark_viewed": PERSON,
    "feature.ready_to_merge": PERSON,
    "feature.redo": PERSON,
    "feature.reject": PERSON,
    "feature.request_changes": PERSON,
    "feature.retry": PERSON,
    "feature.state_get": EVERYBODY,
    "feature.state_patch": {ORCHESTRATOR},
    "feature.stop": PERSON,
    "feature.trees": EVERYBODY,
    "feature.undo": PERSON,
    "forge.accept": PERSON,
    "forge.answer": PERSON,
    "forge.ask": PERSON,
    "forge.build_abandon": PERSON,
    "forge.build_audit": PERSON,
    "forge.build_begin": PERSON,
    "forge.build_cost": PERSON,
    "forge.build_event": PERSON,
    "forge.build_interject": PERSON,
    "forge.build_news": PERSON,
    "forge.build_pause": PERSON,
    "forge.build_resume": PERSON,
    "forge.build_seal": PERSON,
    "forge.build_silence": PERSON,
    "forge.build_status": PERSON,
    "forge.build_take_commits": PERSON,
    "forge.build_verify_seal": PERSON,
    "forge.build_verify": PERSON,
    "forge.check": PERSON,
    "forge.contract_diff": PERSON,
    "forge.contract_edit": PERSON,
    "forge.contract_export": PERSON,
    "forge.contract_history": PERSON,
    "forge.contract_show": PERSON,
    "forge.clarify": PERSON,
    "forge.error_dismiss": PERSON,
    "forge.error_track": PERSON,
    "forge.errors_list": PERSON,
    "forge.errors_resolve": PERSON,
    "forge.generation_inputs": PERSON,
    "forge.generation_progress": PERSON,
    "forge.generation_store": PERSON,
    "forge.leftover_drop": set(),
    "forge.key_list": PERSON,
    "forge.key_new": PERSON,
    "forge.key_revoke": PERSON,
    "forge.note_get": PERSON,
    "forge.note_put": PERSON,
    "forge.pin": PERSON,
    "forge.plan": PERSON,
    "forge.project_delete": PERSON,
    "forge.project_list": PERSON,
    "forge.project_new": PERSON,
    "forge.project_show": PERSON,
    "forge.scan": PERSON,
    "forge.scan_show": PERSON,
    "forge.tokens": PERSON,
    "forge_abandon_branch": PERSON,
    "forge_ask_clarification": {FORGE_BUILDER, SCOUT, CODER},
    "forge_create_branch": PERSON,
    "forge_get_artifact": {ORCHESTRATOR},
    "forge_get_branch_status": {FORGE_BUILDER, ORCHESTRATOR},
    "forge_get_build_contracts": {FIXER},
    "forge_get_contract": {FORGE_BUILDER, SCOUT, CODER, AUDITOR},
    "forge_get_phase_window": {FORGE_BUILDER, SCOUT, CODER},
    "forge_get_project_context": {SCOUT},
    "forge_get_project_contract": {SCOUT, CODER, AUDITOR},
    "forge_get_summary": {FORGE_BUILDER, SCOUT, CODER, AUDITOR},
    "forge_list_branch_commits": {FORGE_BUILDER, ORCHESTRATOR},
    "forge_list_contracts": {FORGE_BUILDER, SCOUT, CODER, AUDITOR},
    "forge_list_project_contracts": {SCOUT, CODER, AUDITOR},
    "forge_read_notepad": {FORGE_BUILDER, SCOUT, CODER},
    "forge_report_progress": {CODER},
    "forge_scratchpad": {FORGE_BUILDER, SCOUT, CODER, AUDITOR, FIXER},
    "forge_seal_branch": PERSON,
    "forge_set_session": {ORCHESTRATOR},
    "gated.reset": PERSON,
    "gated.resume": PERSON,
    "gated.start": PERSON,
    "gated.status": {ORCHESTRATOR},
    "gates.check_base": PERSON,
    "gates.list": EVERYBODY,
    "gates.run": {ORCHESTRATOR, BUILDER, QA},
    "gates.log": EVERYBODY,
    "gates.status": EVERYBODY,
    "get_task": {SWE},
    "inbox.answer": PERSON,
    "inbox.ask": {ORCHESTRATOR},
    "inbox.ask_path": EVERYBODY,
    "inbox.expire": set(),
    "inbox.list": EVERYBODY,
    "leftovers.clean_hub": set(),
    "leftovers.note": set(),
    "list_directory": {SWE, FORGE_BUILDER, SCOUT, CODER, AUDITOR, FIXER},
    "locks.acquire": {ORCHESTRATOR},
    "locks.release": {ORCHESTRATOR},
    "notices.note": set(),
    "plan.get": EVERYBODY,
    "plan.submit": {ORCHESTRATOR, PLANNER},
    "plan.update": {ORCHESTRATOR, PLANNER},
    "plan.versions": EVERYBODY,
    "plan.waves": EVERYBODY,
    "qa.test_index_get": EVERYBODY,
    "qa.test_index_update": {ORCHESTRATOR, QA},
    "read_file": {SWE, FORGE_BUILDER, SCOUT, CODER, AUDITOR, FIXER},
    "repo.apply_patch": {BUILDER, QA},
    "repo.commit": set(),
    "repo.diff": EVERYBODY,
    "repo.diff_bundle": EVERYBODY,
    "repo.ensure_worktree": {ORCHESTRATOR},
    "repo.follow_base": set(),
    "repo.merge": set(),
    "repo.read_file": EVERYBODY,
    "repo.rebase_onto_main": set(),
    "repo.search": EVERYBODY,
    "repo.status": EVERYBODY,
    "repo.sync": PERSON,
    "repo.take_edits": PERSON,
    "report.cards": EVERYBODY,
    "report.costs": {ORCHESTRATOR},
    "report.dashboard": EVERYBODY,
    "report.failures": {ORCHESTRATOR},
    "report.feature_summary": EVERYBODY,
    "report.journal": {ORCHESTRATOR},
    "report.merges": EVERYBODY,
    "report.past": {ORCHESTRATOR},
    "report.search": {ORCHESTRATOR},
    "report.times": {ORCHESTRATOR},
    "request_scope_reduction": {SWE},
    "run_command": {FORGE_BUILDER, CODER},
    "run_tests": {FORGE_BUILDER},
    "run.add": PERSON,
    "run.began": set(),
    "run.pause": PERSON,
    "run.resume": PERSON,
    "run.took": set(),
    "run.wait": set(),
    "run.waited": set(),
    "submit_note": {PLANNER, BUILDER, QA},
    "submit_patch": {BUILDER, QA},
    "submit_plan": {ORCHESTRATOR, PLANNER},
    "submit_request": {PLANNER, BUILDER, QA},
    "safe_patch": {SWE},
    "search_code": {SWE, FORGE_BUILDER, SCOUT, CODER, AUDITOR, FIXER},
    "submit_work": {SWE},
    "usage.assign": set(),
    "usage.begin": set(),
    "usage.record": set(),
    "write_file": {FORGE_BUILDER, CODER},
}
"""Which roles may call a tool (`system` may call all); `person`: the orchestrator's, and never with a token."""
CHANGES_NO_FEATURE = {"failures.mark", "gates.check_base", "leftovers.note", "repo.sync", "run.began"} | {
    "leftovers.clean_hub",
    "edit_file",
    "run_command",
    "run_tests",
    "write_file",
    "escalate_for_external_help",
    "get_task",
    "request_scope_reduction",
    "safe_patch",
    "submit_work",
    *(name for name in CATALOGUE if name.startswith("forge")),
}


def may(tool: str, role: Role, *, person: bool) -> bool:
    row = MATRIX[tool]
    if role is Role.SYSTEM:
        return True
    return person and role is ORCHESTRATOR if isinstance(row, str) else role in row


@pytest.mark.req("AOP-152")
@pytest.mark.hostile("T09")
def test_every_tool_of_the_catalogue_has_a_row_in_the_matrix() -> None:
    assert {tool.name for tool in CATALOGUE.values()} - MATRIX.keys() == set()


@pytest.mark.req("AOP-152", "AOP-153", "AOP-154", "AOP-155", "AOP-156", "AOP-157")
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("person", [False, True], ids=["token", "person"])
def test_a_role_reaches_exactly_the_tools_of_its_row(shared: World, role: Role, *, person: bool) -> None:
    who = msgspec.structs.replace(worker(role), person=person)
    expected = {tool.name for tool in CATALOGUE.values() if may(tool.name, role, person=person)}
    reached = {
        tool.name
        for tool in CATALOGUE.values()
        if code_of(shared, who, tool.name, {"no": "such argument"}) != FORBIDDEN
    }
    assert reached == expected
    assert {tool.name for tool in shared.app.gateway.tools_for(who)} == expected


@pytest.mark.req("AOP-152")
def test_a_forbidden_call_says_which_role_and_tool(shared: World) -> None:
    answers = [
        shared.app.gateway.call(worker(role), tool, {"feature_id": "one"}).as_json()
        for role, tool in ((BUILDER, "feature.init"), (ORCHESTRATOR, "feature.ready_to_merge"))
    ]
    assert answers == [
        {
            "ok": False,
            "error": {
                "code": FORBIDDEN,
                "message": message,
                "details": {
                    "retryable": False,
                    "requires_human": False,
                    "suggested_next_actions": [errors.ForbiddenToolForRole.hint],
                    "role": role,
                    "tool": tool,
                },
            },
        }
        for role, tool, message in (
            ("builder", "feature.init", "The role `builder` may not call `feature.init`."),
            (
                "orchestrator",
                "feature.ready_to_merge",
                "The role `orchestrator` may not call `feature.ready_to_merge` with a token: it is for a person.",
            ),
        )
    ]


@pytest.mark.hostile("T09")
@pytest.mark.parametrize(
    "name", ["feature.explode", "", "feature_init", "Feature.init", "feature.init ", "x" * 10_000, "\ud800"]
)
@pytest.mark.parametrize("role", [Role.BUILDER, Role.SYSTEM])
def test_a_tool_that_does_not_exist_is_refused_to_everybody(shared: World, name: str, role: Role) -> None:
    error = shared.app.gateway.call(worker(role), name, {}).error
    assert error is not None
    assert (error["code"], error["details"]["tool"]) == ("unknown_tool", ascii(name[:80])[1:-1])


@pytest.mark.hostile("T09")
def test_a_tool_that_names_no_role_is_for_nobody_but_the_system(shared: World) -> None:
    unruled = saying(lambda call, _: Said(said="done"), roles=frozenset(), mutates=False)
    gateway = Gateway(shared.app.gateway.kernel, {"test.say": unruled})
    person = {role for role in Role if gateway.call(Principal(role=role, actor="a", person=True), "test.say", {}).ok}
    assert person == {Role.SYSTEM}


@pytest.mark.req("AOP-227")
@pytest.mark.parametrize("role", [PLANNER, BUILDER, QA, ORCHESTRATOR, CODER])
def test_in_its_turn_an_agent_reads_and_proposes_and_changes_nothing(shared: World, role: Role) -> None:
    free, bound = (Principal(role=role, actor="agent", turn=turn) for turn in ("", "run-1"))
    changes = {tool.name for tool in shared.app.gateway.tools_for(free) if tool.mutates and not tool.in_turn}
    reads = {tool.name for tool in shared.app.gateway.tools_for(free)} - changes
    assert changes
    assert {tool.name for tool in shared.app.gateway.tools_for(bound)} == reads
    assert {code_of(shared, bound, name, {}) for name in changes} == {FORBIDDEN}


def test_the_policy_narrows_a_role_and_leaves_the_others(tmp_path: Any) -> None:
    world = world_with(tmp_path, "version: 1\nrbac: {builder: [repo.status, repo.diff]}\n")
    allowed = {role: {tool.name for tool in world.app.gateway.tools_for(worker(role))} for role in (BUILDER, QA)}
    assert allowed[BUILDER] == {"repo.status", "repo.diff"}
    assert allowed[QA] == {tool.name for tool in CATALOGUE.values() if may(tool.name, QA, person=False)}
    assert code_of(world, worker(BUILDER), "repo.apply_patch", {}) == FORBIDDEN
    assert code_of(world, worker(BUILDER), "repo.status", {}) == "invalid_arguments"
    world.close()


def test_the_policy_cannot_give_a_role_more_than_the_catalogue_does(tmp_path: Any) -> None:
    given = "builder: [plan.submit, feature.ready_to_merge], orchestrator: [feature.ready_to_merge, repo.apply_patch]"
    world = world_with(tmp_path, f"version: 1\nrbac: {{{given}}}\n")
    assert [world.app.gateway.tools_for(worker(role)) for role in (BUILDER, ORCHESTRATOR)] == [(), ()]
    assert [tool.name for tool in world.app.gateway.tools_for(world.app.person)] == ["feature.ready_to_merge"]
    world.close()


@pytest.mark.req("AOP-323")
def test_nothing_runs_under_a_policy_that_is_not_valid(tmp_path: Any) -> None:
    world = world_with(tmp_path, "version: 1\nrbac: {builder: repo.status}\n")
    assert world.refusal("report.dashboard")["code"] == "invalid_configuration"
    assert world.refusal("feature.init", feature_id="one")["code"] == "invalid_configuration"
    world.close()


@pytest.mark.req("AOP-148")
def test_every_tool_takes_the_callers_role_and_name() -> None:
    for tool in CATALOGUE.values():
        properties = tool_schemas(tool)[0]["properties"]
        assert {"actor_type", "actor_id"} <= properties.keys(), tool.name
        if tool.mutates and tool.name not in CHANGES_NO_FEATURE:
            assert {"feature_id", "expected_version"} <= properties.keys(), tool.name


@pytest.mark.req("AOP-148")
@pytest.mark.parametrize(
    "claimed",
    [
        {"actor_type": "orchestrator"},
        {"actor_type": "system"},
        {"actor_id": "person:ada"},
        {"actor_id": ""},
        {"actor_type": "builder", "actor_id": "builder:2"},
        {"actor_type": "qa", "actor_id": "builder:1"},
    ],
    ids=str,
)
def test_a_caller_that_names_itself_wrongly_is_refused(shared: World, claimed: dict[str, str]) -> None:
    assert code_of(shared, worker(BUILDER), "feature.state_get", {"feature_id": "one", **claimed}) == FORBIDDEN


@pytest.mark.req("AOP-148")
@pytest.mark.parametrize("claimed", [{}, {"actor_type": "builder"}, {"actor_type": "builder", "actor_id": "builder:1"}])
def test_a_caller_may_name_itself_rightly(shared: World, claimed: dict[str, str]) -> None:
    assert code_of(shared, worker(BUILDER), "feature.state_get", {"feature_id": "one", **claimed}) is None


def test_the_journal_names_the_caller_that_was_authenticated(world: World) -> None:
    world.init("one")
    with world.app.record.read() as view:
        assert [entry.event.actor for entry in view.journal()] == ["person:ada"]


def test_a_token_opens_only_the_features_of_its_scope(shared: World) -> None:
    shared.init("two")
    one = worker(BUILDER, "one")
    codes = {name: code_of(shared, one, "feature.state_get", {"feature_id": name}) for name in ("one", "two", "none")}
    assert codes == {"one": None, "two": FORBIDDEN, "none": FORBIDDEN}
    dashboard = shared.app.gateway.call(one, "report.dashboard", {}).data
    assert [row["feature_id"] for row in dashboard["features"]] == ["one"]
    assert sum(dashboard["counts"].values()) == 1


def test_every_tool_on_a_feature_keeps_to_the_scope(shared: World) -> None:
    everything = Principal(role=Role.SYSTEM, actor="system", features=frozenset({FeatureId("one")}))
    for tool in CATALOGUE.values():
        if issubclass(tool.arguments, FeatureArguments):
            arguments = {**EXAMPLES.get(tool.name, {}), "feature_id": "two"}
            assert code_of(shared, everything, tool.name, arguments) == FORBIDDEN, tool.name


EXAMPLES: Mapping[str, dict[str, Any]] = {
    "gated.resume": {"guidance": "Go on."},
    "locks.acquire": {"resource": "events"},
    "locks.release": {"resource": "events"},
    "plan.submit": {"plan_json": plan_for("one")},
    "plan.update": {"plan_json": plan_for("one"), "expected_plan_version": 1},
    "qa.test_index_update": {"expected_version": 1, "updates": [{"path": "src/a.txt", "status": "running"}]},
    "repo.apply_patch": {"unified_diff": PATCH},
    "repo.read_file": {"path": "README.md"},
    "repo.search": {"query": "A"},
    "report.past": {"seq": 1},
    "report.search": {"text": "one"},
    "gates.run": {"mode": "fast"},
    "gates.log": {"run": "fast"},
    "gates.status": {"operation_id": "run-1"},
    "failures.mark": {"fingerprint": "0" * 12, "note": "Seen before."},
    "feature.log_append": {"note": "Seen."},
    "feature.state_patch": {"expected_version": 1, "patch": {"status": "blocked", "status_reason": "It waits."}},
    "feature.approve": {"tree": "0" * 40, "base": "0" * 40},
    "feature.ingest_spec": {"text": "Say TWO.\n", "source_path": "specs/one.md"},
    "feature.mark_viewed": {"change": "0" * 32},
    "feature.undo": {"to": "0"},
    "feature.hand_requests": {"worker": "builder"},
    "feature.reject": {"text": "Another way."},
    "feature.request_changes": {"text": "Say THREE.", "file": "src/a.txt", "lines": "2-3"},
    "feature.comment": {"text": "Why two?", "file": "src/a.txt", "lines": "2"},
    "feature.comment_edit": {"number": 1, "text": "Why not three?"},
    "feature.comment_delete": {"number": 2},
    "feature.answer_comments": {"comments": [{"number": 1, "word": "declined", "reason": "Two it is."}]},
    "escalate_for_external_help": {"markdown_report": "# Stuck"},
    "read_file": {"file_path": "README.md"},
    "search_code": {"query": "A"},
    "inbox.answer": {"question_id": "q1", "answer": "Blue."},
    "inbox.ask": {"gate": "question", "text": "Which colour?"},
    "inbox.ask_path": {"path": ".gitignore", "reason": "It makes a folder that nobody should commit."},
    "inbox.expire": {"question_id": "q1"},
    "leftovers.note": {"kind": "worktree", "name": "gone", "did": "rescued", "ref": "refs/aop/rescue/gone/1"},
    "notices.note": {"event_id": "question:q1", "target": "phone", "outcome": "sending"},
    "run.began": {
        "order": {
            "run": "run-1",
            "started_by": "person:ada",
            "features": ["one"],
            "providers": {"planner": {"provider": "custom"}},
            "limits": {"active_features": 5},
        }
    },
    "submit_note": {"note": "Seen."},
    "submit_patch": {"unified_diff": PATCH},
    "submit_plan": {"plan": plan_for("one")},
    "submit_request": {"request": "question", "detail": {"question": "Which colour?"}},
    "run.wait": {
        "provider": "anthropic",
        "until": "2030-01-01T12:00:00.000Z",
        "trouble": "anthropic limits the requests (HTTP status 429).",
        "since": "2029-01-01T12:00:00.000Z",
    },
    "usage.assign": {"turn": "turn-1", "on_worker": "build-7"},
    "usage.begin": {"worker": "builder", "run": "run-1", "provider": "custom"},
    "usage.record": {"worker": "builder", "run": "run-1", "provider": "custom"},
}
"""What a tool needs besides a feature."""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param("feature.init", {}, id="missing"),
        pytest.param("feature.init", {"feature_id": None}, id="null"),
        pytest.param("feature.init", {"feature_id": 41}, id="number for text"),
        pytest.param("feature.init", {"feature_id": ["one"]}, id="list for text"),
        pytest.param("feature.init", {"feature_id": "one", "force": True}, id="unknown key"),
        pytest.param("feature.init", {"feature_id": "one", "wait_for_previous": False}, id="key of a host"),
        pytest.param("feature.init", {"feature_id": "one", "expected_version": "1"}, id="text for number"),
        pytest.param("feature.init", {"feature_id": "one", "expected_version": True}, id="true for number"),
        pytest.param("feature.init", {"feature_id": "one", "expected_version": 1.5}, id="fraction"),
        pytest.param("feature.init", {"feature_id": "one", "expected_version": 0}, id="zero"),
        pytest.param("feature.init", {"feature_id": "one", "actor_type": "boss"}, id="unknown role"),
        pytest.param("feature.init", {"feature_id": "one", "actor_id": 1}, id="number for a name"),
        pytest.param("report.dashboard", {"feature_id": "one"}, id="feature where none is taken"),
        pytest.param("gates.run", {"feature_id": "one", "mode": "FAST"}, id="unknown mode"),
        pytest.param("gates.run", {"feature_id": "one"}, id="no mode"),
        pytest.param("repo.diff", {"feature_id": "one", "options": {"output": "/tmp/x"}}, id="option of git"),
        pytest.param("repo.diff", {"feature_id": "one", "options": ["--output=/tmp/x"]}, id="options as a list"),
        pytest.param("repo.read_file", {"feature_id": "one", "path": "a", "limit": 10**9}, id="beyond the limit"),
        pytest.param("plan.submit", {"feature_id": "one", "plan_json": "{}"}, id="text for a plan"),
        pytest.param(
            "plan.submit", {"feature_id": "one", "plan_json": plan_for("one", extra=1)}, id="unknown key in a plan"
        ),
        pytest.param(
            "plan.submit", {"feature_id": "one", "plan_json": plan_for("one", plan_version="1")}, id="deep text"
        ),
        pytest.param(
            "plan.submit", {"feature_id": "one", "plan_json": plan_for("one", summary="\ud800 half")}, id="half"
        ),
        pytest.param("repo.read_file", {"feature_id": "one", "path": "\udfff"}, id="half of a pair in a read"),
        pytest.param("repo.read_file", {"feature_id": "one", "path": "a", "offset": float("nan")}, id="not a number"),
        pytest.param("report.dashboard", [], id="a list"),
        pytest.param("report.dashboard", "{}", id="a text"),
        pytest.param("report.dashboard", None, id="nothing"),
        pytest.param("report.dashboard", 3, id="a number"),
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_refused(shared: World, tool: str, arguments: Any) -> None:
    before = shared.fingerprint()
    error = shared.app.gateway.call(Principal(role=Role.SYSTEM, actor="system"), tool, arguments).error
    assert error is not None
    assert (error["code"], error["details"]["tool"]) == ("invalid_arguments", tool)
    assert error["message"].startswith(f"The arguments of `{tool}` are not valid: ")
    assert shared.fingerprint() == before


NO_FEATURE_IDS = [
    "", "-D", "-f", "a b", "A", "a/b", "../x", "..", ".", ".git", "a.lock", "one\n", "\none", "one\0", "é", "a" * 64,
    "head", "main", "master", "stash", "con", "nul", "com1", "fetch_head", "@", "a~1", "a^", "a:b", "a*", "\u202eeno",
]  # fmt: skip


@pytest.mark.req("AOP-305")
@pytest.mark.parametrize("name", NO_FEATURE_IDS, ids=ascii)
def test_a_name_that_is_no_feature_id_reaches_no_tool(shared: World, name: str) -> None:
    before = shared.fingerprint()
    answers = {
        tool.name: code_of(shared, shared.app.person, tool.name, {**EXAMPLES.get(tool.name, {}), "feature_id": name})
        for tool in CATALOGUE.values()
        if issubclass(tool.arguments, FeatureArguments) and may(tool.name, ORCHESTRATOR, person=True)
    }
    assert answers == dict.fromkeys(answers, "invalid_feature_slug")
    assert shared.fingerprint() == before


@pytest.mark.req("AOP-030", "AOP-151")
@pytest.mark.hostile("S17")
@pytest.mark.parametrize(
    "tool",
    # What the QA tool expects is the version of the index.
    [
        tool.name
        for tool in CATALOGUE.values()
        if tool.mutates and tool.name not in {"qa.test_index_update", *CHANGES_NO_FEATURE}
    ],
)
def test_a_stale_version_is_refused_by_every_tool_that_changes_a_feature(shared: World, tool: str) -> None:
    arguments = {**EXAMPLES.get(tool, {}), "feature_id": "one", "expected_version": 7}
    before = shared.fingerprint()
    error = shared.app.gateway.call(Principal(role=Role.SYSTEM, actor="system"), tool, arguments).error
    assert error == {
        "code": "version_conflict",
        "message": "The feature `one` is at version 1, not 7.",
        "details": {
            "retryable": True,
            "requires_human": False,
            "suggested_next_actions": [errors.VersionConflict.hint],
            "expected_version": 7,
            "current_version": 1,
        },
    }
    assert shared.fingerprint() == before


@pytest.mark.req("AOP-030", "AOP-151")
def test_the_version_that_a_caller_expects_is_the_one_it_read(world: World) -> None:
    world.init("one")
    assert world.ok("plan.submit", feature_id="one", plan_json=plan_for("one"), expected_version=1)["version"] == 2
    late = world.refusal("repo.apply_patch", role=BUILDER, feature_id="one", unified_diff=PATCH, expected_version=1)
    assert late["details"]["current_version"] == 2
    revised = plan_for("one", plan_version=2, revision_of=1)
    stale = world.refusal("plan.update", feature_id="one", plan_json=revised, expected_plan_version=3)
    assert (stale["code"], stale["details"]["current_version"]) == ("version_conflict", 1)


ENVELOPE = {
    "oneOf": [
        {
            "properties": {"ok": {"const": True}, "data": {"type": "object"}, "evidence": {"type": "object"}},
            "required": ["ok", "data"],
            "additionalProperties": False,
        },
        {
            "properties": {
                "ok": {"const": False},
                "error": {
                    "type": "object",
                    "properties": {
                        "code": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
                        "message": {"type": "string", "minLength": 10},
                        "details": {
                            "type": "object",
                            "properties": {
                                "retryable": {"type": "boolean"},
                                "requires_human": {"type": "boolean"},
                                "conflicting_feature_ids": {"type": "array", "items": {"type": "string"}},
                                "suggested_next_actions": {
                                    "type": "array",
                                    "items": {"type": "string"},
                                    "minItems": 1,
                                },
                            },
                            "required": ["retryable", "requires_human", "suggested_next_actions"],
                        },
                    },
                    "required": ["code", "message", "details"],
                    "additionalProperties": False,
                },
                "evidence": {"type": "object", "minProperties": 1},
            },
            "required": ["ok", "error"],
            "additionalProperties": False,
        },
    ]
}


class Watched(World):
    """A world that checks every answer against its schema, and keeps the names of the tools that gave data."""

    answered: set[str]
    refused: set[str]

    def call(self, tool: str, **words: Any) -> Any:
        answer = super().call(tool, **words)
        wire = msgspec.json.decode(msgspec.json.encode(answer.as_json()))
        jsonschema.Draft202012Validator(ENVELOPE).validate(wire)
        jsonschema.Draft202012Validator(tool_schemas(CATALOGUE[tool])[1] if answer.ok else error_schema()).validate(
            wire
        )
        if answer.ok:
            self.answered.add(tool)
        else:
            self.refused.add(str(wire["error"]["code"]))
        return answer


@pytest.fixture
def watched(tmp_path: Any) -> Iterator[Watched]:
    policy = "version: 1\ncommit_policy: {allow_commit: true, allow_merge: true}\n"
    made = Watched(make_repository(tmp_path / "repo", {**FILES, "agentic/orchestrator/policy.yaml": policy}))
    made.answered, made.refused = set(), set()
    yield made
    made.close()


def look_at_everything(world: World, feature: str = "one") -> None:
    for tool in CATALOGUE.values():
        if not tool.mutates:
            needed = {"feature_id": feature} if issubclass(tool.arguments, FeatureArguments) else {}
            world.call(tool.name, **{**EXAMPLES.get(tool.name, {}), **needed})


def begin(world: World) -> None:
    world.init("one")
    assert world.ok("feature.init", feature_id="one")["created"] is False
    world.ok("repo.ensure_worktree", feature_id="one")


def plan_twice(world: World) -> None:
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one"))
    world.ok(
        "plan.update",
        feature_id="one",
        expected_plan_version=1,
        plan_json=plan_for("one", plan_version=2, revision_of=1, files=files(("src/broken.txt",), ("src/a.txt",))),
    )


def tell_about(world: World) -> None:
    version = world.ok("feature.state_get", feature_id="one")["version"]
    world.ok("feature.log_append", feature_id="one", note="Begun.")
    world.ok("feature.state_patch", feature_id="one", expected_version=version, patch={"role_status": {"qa": "done"}})
    for tool in ("locks.acquire", "locks.release"):
        world.ok(tool, feature_id="one", resource="events")
    world.ok("feature.ingest_spec", feature_id="one", text="Say TWO.\n", source_path="specs/one.md")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Which colour?")
    world.ok("inbox.expire", role=Role.SYSTEM, feature_id="one", question_id="q1")
    world.ok("inbox.answer", feature_id="one", question_id="q1", answer="Blue.")
    world.ok("inbox.ask_path", feature_id="one", **EXAMPLES["inbox.ask_path"])
    world.ok("notices.note", role=Role.SYSTEM, feature_id="one", **EXAMPLES["notices.note"])
    for tool in (
        "usage.begin",
        "usage.assign",
        "usage.record",
        "submit_note",
        "submit_patch",
        "submit_plan",
        "submit_request",
    ):
        world.ok(tool, role=Role.SYSTEM, feature_id="one", **EXAMPLES[tool])
    for tool in ("run.began", "leftovers.clean_hub", "leftovers.note"):
        world.ok(tool, role=Role.SYSTEM, **EXAMPLES.get(tool, {}))
    assert world.ok("gates.check_base")["passed"] is True
    assert world.ok("repo.sync")["updated"] is False


def steer(world: World) -> None:
    version = world.ok("feature.state_get", feature_id="one")["version"]
    blocked = {"status": "blocked", "status_reason": "It waits."}
    world.ok("feature.state_patch", feature_id="one", expected_version=version, patch=blocked)
    world.ok("feature.retry", feature_id="one")
    world.ok("run.add", feature_id="one")
    assert world.ok("run.took", role=Role.SYSTEM, feature_id="one")["taken"] is True
    for tool in ("run.wait", "run.waited"):
        world.ok(tool, role=Role.SYSTEM, feature_id="one", **EXAMPLES.get(tool, {}))
    for tool in ("run.pause", "run.resume"):
        world.ok(tool, feature_id="one")
        world.ok(tool)


def break_and_repair(world: World) -> None:
    world.patch("one", "--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+x\n")
    error = world.call("gates.run", feature_id="one", mode="fast").error
    assert error is not None
    assert error["code"] == "gate_failed"
    look_at_everything(world)
    world.ok("feature.undo", feature_id="one", to="0")
    world.ok("feature.redo", feature_id="one")
    world.ok("feature.undo", feature_id="one", to="0")
    object_to(world)
    for mode in ("fast", "full"):
        world.ok("gates.run", operation=f"run-{mode}", feature_id="one", mode=mode)
    world.ok("gates.status", feature_id="one", operation_id="run-fast")
    world.ok("gates.log", feature_id="one", run="fast")
    change = world.ok("repo.diff_bundle", feature_id="one")["files"][0]["change"]
    world.ok("feature.mark_viewed", feature_id="one", change=change)


def object_to(world: World) -> None:
    """A person requests a change, the builder is given it, and the person makes the first half by hand."""
    for _ in range(2):
        world.ok("feature.comment", feature_id="one", **EXAMPLES["feature.comment"])
    for tool in ("feature.comment_edit", "feature.comment_delete", "feature.request_changes"):
        world.ok(tool, feature_id="one", **EXAMPLES[tool])
    world.ok("feature.hand_requests", role=Role.SYSTEM, feature_id="one", **EXAMPLES["feature.hand_requests"])
    answers = EXAMPLES["feature.answer_comments"]
    world.ok("feature.answer_comments", role=Role.BUILDER, feature_id="one", **answers)
    world.ok("feature.comments", feature_id="one")
    (world.root / ".worktrees/one/src/a.txt").write_text("one\nTWO\nthree\n")
    assert world.ok("repo.take_edits", feature_id="one", dry_run=False)["taken"] is True
    world.init("other")
    world.ok("plan.submit", feature_id="other", plan_json=plan_for("other", files=files(modify=("src/b.txt",))))
    world.ok("feature.reject", feature_id="other", **EXAMPLES["feature.reject"])
    world.ok("feature.stop", feature_id="other")
    world.ok("failures.mark", **EXAMPLES["failures.mark"])


def mark(world: World) -> None:
    world.ok("qa.test_index_update", feature_id="one", **{**EXAMPLES["qa.test_index_update"], "expected_version": 5})


def merge(world: World) -> None:
    world.call("feature.ready_to_merge", feature_id="one")
    for tool in ("repo.commit", "repo.rebase_onto_main", "repo.follow_base", "feature.begin_anew"):
        world.ok(tool, role=Role.SYSTEM, feature_id="one")
    token = world.approval("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    world.call("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    world.ready("two", PATCH.replace("-two", "-TWO").replace("+TWO", "+2"))
    world.ok("repo.merge", role=Role.SYSTEM, feature_id="two", user_approval_token=world.approval("two"))


def work_gated(world: World) -> None:
    """One agent is told what to do, plans, fails ten times, calls for help, and plans anew."""
    assert world.ok("gated.start", feature_id="gated")["created"] is True
    for tool in ("get_task", "list_directory", "read_file", "search_code"):
        world.ok(tool, role=SWE, **EXAMPLES.get(tool, {}))
    lines = active_pr("feat: Say one", "Say it").splitlines()
    patch = {"unified_diff": patch_of("ACTIVE_PR.json", *lines), "base_content_sha256": NOTHING}
    world.ok("safe_patch", role=SWE, file_path="ACTIVE_PR.json", **patch)
    world.ok("submit_work", role=SWE, summary="Planned.")
    world.ok("get_task", role=SWE)
    red = {"summary": "Red.", "test_command": "true", "expectation": "FAIL"}
    for _ in range(10):
        assert world.ok("submit_work", role=SWE, **red)["status"] == "FAILURE"
        world.ok("get_task", role=SWE)
    asked = world.ok("escalate_for_external_help", role=SWE, markdown_report="# Stuck")["question_id"]
    assert world.ok("gated.resume", feature_id="gated", guidance="Plan anew.")["question_id"] == asked
    world.ok("get_task", role=SWE)
    world.ok("request_scope_reduction", role=SWE)
    assert world.ok("gated.status")["workflows"][0]["status"] == "REPLANNING"
    assert world.ok("gated.reset", feature_id="gated")["status"] == "INITIALIZING"


def write_contracts(world: World) -> None:
    """A project gets contracts from a scan; a person edits, checks and pins them."""
    project: dict[str, Any] = {"project_id": world.ok("forge.project_new", name="Bird Log")["project_id"]}
    world.ok("forge.answer", **project, answers=ANSWERS)
    world.ok("forge.scan", **project)
    world.ok("forge.plan", **project)
    world.ok("forge.generation_progress", **project, contract_type="manifesto", turn=1)
    inputs = world.ok("forge.generation_inputs", **project)["sha256"]
    world.ok("forge.generation_store", **project, inputs=inputs, contracts=CONTRACTS)
    stack: dict[str, Any] = {**project, "contract_type": "stack"}
    world.ok("forge.contract_edit", **stack, content=CONTRACTS[ContractType.STACK] + "\n", expected_version=1)
    for tool in ("show", "history"):
        world.ok(f"forge.contract_{tool}", **stack)
    world.ok("forge.contract_diff", **stack, before=1, after=2)
    unknown = next(each for each in world.ok("forge.check", **project)["clauses"] if each["verdict"] != "holds")
    world.ok("forge.accept", **project, clause=unknown["clause"])
    for tool in ("ask", "project_show", "contract_export", "scan_show"):
        world.ok(f"forge.{tool}", **project)
    world.ok("forge.key_revoke", prefix=world.ok("forge.key_new")["prefix"])
    world.ok("forge.tokens", target=project["project_id"])
    world.ok("forge.project_list")
    world.ok("forge.key_list")
    keep(world, project["project_id"], "plan", "first", {"steps": []}, until="2999-01-01T00:00:00.000Z")
    key = artifact_key(project["project_id"], "plan", "first")
    world.ok("forge.leftover_drop", role=Role.SYSTEM, kind="artifact", key=key)
    world.ok("forge.pin", **project)
    build(world, project["project_id"])
    world.ok("forge.project_delete", project_id=world.ok("forge.project_new", name="Gone")["project_id"], dry_run=False)


def build(world: World, project: str) -> None:
    """Take a build of a project through its life."""
    build_id = world.ok("forge.build_begin", project_id=project)["build_id"]
    world.ok("forge.build_audit", build_id=build_id)
    work_on(world, project, build_id)
    steer_build(world, build_id, {"project_id": project})
    world.ok("forge.build_status", build_id=build_id)
    world.ok("forge.build_take_commits", build_id=build_id)
    world.ok("forge.build_verify", build_id=build_id)
    world.ok(
        "forge.build_event", build_id=build_id, event={"type": "plan", "tasks": [{"number": 1, "text": "Write it"}]}
    )
    world.ok("forge.build_news", build_id=build_id)
    world.ok("forge.build_abandon", build_id=build_id, reason="It was a trial.")
    world.ok("forge.scan", project_id=project)
    second = world.ok("forge.build_begin", project_id=project)["build_id"]
    commit_tree(world, second)
    world.ok("forge.build_seal", build_id=second)
    world.ok("forge.build_verify_seal", build_id=second)


def steer_build(world: World, build_id: str, project: Mapping[str, Any]) -> None:
    """A build asks, errs, is paused and told things."""
    of_build: dict[str, Any] = {"build_id": build_id}
    asked = world.app.gateway.call(
        coder(build_id), "forge_ask_clarification", {"question": "Which way?"}, operation_id="op-ask-way"
    )
    world.ok("forge.clarify", **project, question_id=asked.data["question_id"], answer="Left.")
    world.ok("forge.error_track", **of_build, errors=[{"message": "src/a.py:3: no name x"}])
    world.ok("forge.errors_resolve", **of_build, method="auto-fix", paths=["src/a.py"])
    world.ok("forge.error_dismiss", **of_build, error_id="e1")
    for tool in ("errors_list", "build_pause", "build_resume", "build_cost"):
        world.ok(f"forge.{tool}", **of_build)
    world.ok("forge.build_interject", **of_build, text="Hurry.")
    world.ok("forge.build_silence", **of_build, sign="beat")
    world.ok("forge.note_put", **project, content="Prefer UTC.")
    world.ok("forge.note_get", **project)


def work_on(world: World, project: str, build_id: str) -> None:
    """Write, check and run something in a build, as its builder does."""
    app = world.app
    scoped = msgspec.structs.replace(app.person, project=project, build=build_id)
    world.app = msgspec.structs.replace(app, person=scoped)
    world.ok("write_file", role=FORGE_BUILDER, path="src/page.py", content="x = 1\n")
    world.ok("edit_file", role=FORGE_BUILDER, path="src/page.py", edits=[{"old": "1", "new": "2"}])
    world.ok("check_syntax", role=FORGE_BUILDER, file_path="src/page.py")
    for tool in ("run_tests", "run_command"):
        world.ok(tool, role=FORGE_BUILDER, command="python -m unittest --help")
    world.app = app


def delete(world: World) -> None:
    for dry_run in (True, False):
        assert world.ok("feature.delete", feature_id="one", dry_run=dry_run)["deleted"] is not dry_run


LIFE = (begin, plan_twice, tell_about, steer, break_and_repair, mark, merge, work_gated, write_contracts, delete)


@pytest.mark.req("AOP-149", "AOP-150", "AOP-318", "AOP-322")
def test_every_tool_answers_as_its_schema_says_all_through_the_life_of_a_feature(watched: Watched) -> None:
    for part in LIFE:
        look_at_everything(watched)
        part(watched)
    look_at_everything(watched)
    # The broker answers a token; its tools are held against their schemas in `tests/mcpserver/test_every_tool.py`.
    assert watched.answered == {name for name in CATALOGUE if not name.startswith("forge_")}
    expected = {
        "unknown_feature",
        "plan_required",
        "gate_failed",
        "user_approval_required",
        "invalid_status_transition",
    }
    assert expected <= watched.refused


@pytest.mark.req("AOP-149", "AOP-318")
def test_a_gate_run_points_to_its_proof_whether_it_passed_or_not(world: World) -> None:
    world.plan("one", files=files(("src/broken.txt",), ("src/a.txt",)))
    world.patch("one")
    passed = world.call("gates.run", feature_id="one", mode="fast")
    world.patch("one", "--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+x\n")
    failed = world.call("gates.run", feature_id="one", mode="fast")
    for answer, exit_code in ((passed, 0), (failed, 1)):
        evidence = answer.evidence
        assert (evidence["command"], evidence["exit_code"]) == (["sh", "check.sh"], exit_code)
        assert (world.root / evidence["log_path"]).is_file()
    assert (passed.ok, failed.ok) == (True, False)


@pytest.mark.req("AOP-318", "AOP-322")
def test_every_refusal_has_a_code_of_its_own_and_says_what_to_do_next() -> None:
    refusals = list(subclasses(Refusal))
    codes = [refusal.code for refusal in refusals]
    assert sorted(set(codes)) == sorted(codes)
    for refusal in refusals:
        assert refusal.hint != Refusal.hint, refusal.code
        assert refusal.hint.endswith("."), refusal.code


@pytest.mark.req("AOP-319", "AOP-320", "AOP-321")
def test_the_codes_that_callers_rely_on_are_there() -> None:
    expected = """
        forbidden_tool_for_role version_conflict invalid_status_transition unknown_gate_profile_or_mode
        unsupported_parser gate_timeout transient_exec_failure coverage_below_minimum invalid_override_precedence
        path_out_of_bounds lock_not_held lock_conflict stale_lock_reclaimed collision_detected
        blocked_by_collision_policy commit_disabled merge_disabled user_approval_required missing_role_prompt
        qa_index_version_conflict invalid_cli_args input_path_not_found no_specs_found spec_ingest_failed
        invalid_feature_slug feature_slug_collision invalid_workspace_implementation agent_provider_not_configured
        unsupported_agent_provider provider_auth_missing
    """.split()
    assert set(expected) - {refusal.code for refusal in subclasses(Refusal)} == set()


def subclasses(kind: type[Refusal]) -> Iterator[type[Refusal]]:
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
        yield from subclasses(each)


@pytest.mark.req("AOP-322")
def test_a_collision_names_the_features_that_it_is_with(world: World) -> None:
    world.plan("one")
    world.init("two")
    error = world.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))
    assert (error["code"], error["details"]["conflicting_feature_ids"]) == ("collision_detected", ["one"])


class Said(Struct, frozen=True, kw_only=True):
    said: str


class Misshapen(Struct, frozen=True, kw_only=True):
    said: int


def saying(run: Callable[[Call, Any], Outcome], **fields: Any) -> Tool:
    """Return a tool of the tests' own."""
    row: dict[str, Any] = {
        "name": "test.say",
        "summary": "Say something.",
        "arguments": Arguments,
        "output": Said,
        "roles": frozenset({ORCHESTRATOR}),
        "run": run,
        "mutates": True,
    }
    return Tool(**{**row, **fields})


def kinds_of_events(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.kind for entry in view.journal()]


def test_an_answer_that_does_not_fit_its_schema_is_a_fault_and_nothing_is_recorded(world: World) -> None:
    def misspeak(call: Call, _arguments: Arguments) -> Outcome:
        def decide(tx: Transaction) -> Outcome:
            tx.append(call.event("said", None))
            return Misshapen(said=1)

        return call.commit(decide)

    gateway = Gateway(world.app.gateway.kernel, {"test.say": saying(misspeak)})
    with pytest.raises(Fault, match=r"The answer of `test\.say` does not fit its schema"):
        gateway.call(world.app.person, "test.say", {})
    assert kinds_of_events(world) == []


def test_a_read_that_does_not_fit_its_schema_is_a_fault(world: World) -> None:
    misread = saying(lambda call, _: Answer(data=Misshapen(said=1), evidence={}), mutates=False)
    with pytest.raises(Fault, match=r"The answer of `test\.say` does not fit its schema"):
        Gateway(world.app.gateway.kernel, {"test.say": misread}).call(world.app.person, "test.say", {})


def test_a_tool_that_is_not_listed_as_mutating_cannot_write(world: World) -> None:
    sly = saying(lambda call, _: call.commit(lambda tx: Said(said="written")), mutates=False)
    with pytest.raises(Fault, match=r"`test\.say` is not listed as mutating"):
        Gateway(world.app.gateway.kernel, {"test.say": sly}).call(world.app.person, "test.say", {})
    assert kinds_of_events(world) == []


@pytest.mark.parametrize("name", ["", " ", "-x", "a b", "a/b", "x" * 129, "é", "op-1\n", "\ud800"], ids=ascii)
def test_an_operation_id_that_is_not_well_formed_is_refused(shared: World, name: str) -> None:
    answer = shared.call("feature.init", feature_id="never", operation=name)
    assert answer.error is not None
    assert answer.error["code"] == "invalid_arguments"
    with shared.app.record.read() as view:
        assert view.pending_operations() == ()
