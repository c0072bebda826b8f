"""gates.list, gates.run and evidence.latest: what is run, what its outcome is called, and what it proves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from aop.adapters.processes.runner import LocalProcesses
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.processes import Command, CommandResult, Ending, Processes
from aop.kernel.record.documents.features import Status
from aop.wiring.catalogue import CATALOGUE
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import CHECK, GATES, events, force, gates_of, patch_of, plain, state_of, step
from tests.world import FILES, PATCH, World, files, git, make_repository, plan_for

T = TypeVar("T")

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def run(world: World, mode: str = "fast", **more: Any) -> Envelope:
    return world.call("gates.run", feature_id="one", mode=mode, **more)


def failed(world: World, mode: str = "fast", **more: Any) -> Mapping[str, Any]:
    error = run(world, mode, **more).error
    assert error is not None
    return error


def with_steps(make_world: MakeWorld, script: str, **how: Any) -> World:
    """Make a feature whose gates are one line of shell, in every mode."""
    steps = step(script)
    policy, more = how.pop("policy", None), how.pop("files", None)
    world = make_world(gates=gates_of(fast=steps, full=steps, merge=steps, **how), policy=policy, files=more)
    world.plan()
    return world


def log_of(world: World, answer: Envelope) -> str:
    log: Path = world.root / answer.evidence["log_path"]
    return log.read_text()


# --- gates.list ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed(make_shared_world: MakeWorld) -> World:
    world = make_shared_world(
        gates=gates_of(without_merge=True, others={"strict": {"modes": {"fast": [], "full": [CHECK]}}})
    )
    world.plan()
    return world


@pytest.mark.req("AOP-101", "AOP-190")
def test_the_profiles_are_listed_as_they_are_in_force(listed: World) -> None:
    answer = plain(listed.ok("gates.list", role=Role.PLANNER))

    assert sorted(answer["profiles"]) == ["default", "strict"]
    assert answer["profiles"]["strict"]["modes"] == {
        "fast": [],
        "full": [{**CHECK, "cwd": None, "env": {}, "timeout_seconds": None, "outputs": []}],
        "merge": None,
    }
    assert {key: answer[key] for key in answer if key != "profiles"} == {
        "capabilities": ["cobertura_xml", "jacoco_xml", "junit_xml", "lcov", "none"],
        "required_modes": ["fast", "full"],
        "required_merge_mode": "merge",
        "sources": {"policy": "bundled", "gates": f"main:{GATES}", "agents": "bundled"},
        "warnings": [],
    }


@pytest.mark.req("AOP-190")
def test_one_profile_is_listed_by_its_name(listed: World) -> None:
    assert list(listed.ok("gates.list", profile="strict")["profiles"]) == ["strict"]


@pytest.mark.req("AOP-323")
def test_a_profile_that_is_not_there_is_named(listed: World) -> None:
    error = listed.refusal("gates.list", profile="nightly")
    assert (error["code"], error["details"]["profiles"]) == ("unknown_gate_profile_or_mode", ["default", "strict"])


# --- a run that passes ---------------------------------------------------------------------------


@pytest.mark.req("AOP-045", "AOP-046", "AOP-149", "AOP-191", "AOP-192", "AOP-195", "AOP-242", "AOP-249")
def test_passing_fast_gates_are_recorded_and_bring_the_feature_to_qa(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(fast=[*step("echo first", "first"), *step("echo second >&2", "second")]))
    world.plan()
    world.patch()

    answer = run(world)

    result = plain(answer.data)
    run_id = result["gate_run_id"]
    logs = [f"agentic/features/one/logs/{run_id}-{name}.log" for name in ("first", "second")]
    assert result == {
        "feature_id": "one",
        "version": 4,
        "gate_run_id": run_id,
        "profile": "default",
        "mode": "fast",
        "verdict": "pass",
        "status": "qa",
        "tree": state_of(world).tree,
        "steps": [
            {
                "name": name,
                "command": ["sh", "-c", script],
                "outcome": "passed",
                "exit_code": 0,
                "seconds": taken["seconds"],
                "attempts": 1,
                "log_path": log,
                "log_sha256": taken["log_sha256"],
                "problem": "",
                "left": [],
            }
            for name, script, log, taken in zip(
                ("first", "second"), ("echo first", "echo second >&2"), logs, result["steps"], strict=True
            )
        ],
        "coverage": {},
        "tests": {},
        "findings": [],
        "reused": False,
        "sandbox_level": result["sandbox_level"],
    }
    assert [(world.root / log).read_text() for log in logs] == ["first\n", "second\n"]
    assert plain(answer.evidence) == {
        "gate_run_id": run_id,
        "log_path": logs[1],
        "command": ["sh", "-c", "echo second >&2"],
        "exit_code": 0,
        "sandbox_level": result["sandbox_level"],
    }
    assert state_of(world).gates == {"plan": "pass", "fast": "pass", "full": "na", "merge": "na"}
    assert json.loads((world.root / f"agentic/features/one/evidence/{run_id}.json").read_text())["verdict"] == "pass"
    assert events(world)[-1] == "gates_ran"


@pytest.mark.req("AOP-243", "AOP-249", "AOP-250", "AOP-254")
def test_a_pass_moves_a_feature_only_where_the_table_says(world: World) -> None:
    world.plan()
    moves = {}
    for status in (Status.PLANNING, Status.BUILDING, Status.QA, Status.BLOCKED, Status.READY_TO_MERGE):
        for mode in ("fast", "full", "merge"):
            force(world, status=status)
            moves[status, mode] = world.ok("gates.run", feature_id="one", mode=mode)["status"]
    changed = {each: after for each, after in moves.items() if after != each[0]}
    assert changed == {(Status.BUILDING, "fast"): "qa", (Status.QA, "full"): "ready_to_merge"}


@pytest.mark.req("AOP-254")
@pytest.mark.parametrize("status", [Status.MERGED, Status.FAILED])
def test_what_has_ended_is_not_tested_any_more(world: World, status: Status) -> None:
    world.plan()
    force(world, status=status)
    error = world.refusal("gates.run", feature_id="one", mode="fast")
    assert (error["code"], error["details"]["status"]) == ("invalid_status_transition", status)


@pytest.mark.req("AOP-011")
def test_passing_gates_commit_and_merge_nothing(world: World) -> None:
    heads = git(world.root, "for-each-ref", "refs/heads")
    world.ready()
    assert [line for line in git(world.root, "for-each-ref", "refs/heads").splitlines() if "heads/main" in line] == [
        line for line in heads.splitlines() if "heads/main" in line
    ]
    assert git(world.root, "rev-list", "--all", "--count").strip() == "1"


# --- a run that does not pass --------------------------------------------------------------------


@pytest.mark.req("AOP-193", "AOP-195")
def test_the_first_step_that_fails_ends_the_run_and_is_the_answer(make_world: MakeWorld) -> None:
    steps = [*step("echo fine", "one"), *step("echo broken; exit 7", "two"), *step("echo never", "three")]
    world = make_world(gates=gates_of(fast=steps))
    world.plan()

    answer = run(world)

    assert (answer.ok, answer.data) == (False, None)
    error = answer.error or {}
    assert error["code"] == "gate_failed"
    assert error["message"] == "The step `two` did not pass: it ended with exit code 7: sh -c echo broken; exit 7"
    assert [(each["name"], each["outcome"], each["exit_code"]) for each in error["details"]["steps"]] == [
        ("one", "passed", 0),
        ("two", "failed", 7),
    ]
    assert (answer.evidence["exit_code"], log_of(world, answer)) == (7, "broken\n")
    assert len(list((world.root / "agentic/features/one/logs").iterdir())) == 2
    state = state_of(world)
    assert (state.status, state.gates["fast"]) == (Status.BUILDING, "fail")


def test_a_step_that_a_signal_ended_is_told_with_the_name_of_the_signal(make_world: MakeWorld) -> None:
    world = with_steps(make_world, "kill -SEGV $$")
    assert failed(world)["message"].startswith("The step `check` did not pass: it ended with exit code 139 (SIGSEGV): ")


@pytest.mark.req("AOP-243", "AOP-250")
def test_failing_full_gates_do_not_make_a_feature_ready(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(full=step("exit 1")))
    world.plan()
    run(world)
    assert failed(world, "full")["code"] == "gate_failed"
    assert state_of(world).status is Status.QA


@pytest.mark.req("AOP-276")
def test_a_step_that_takes_too_long_is_ended_and_called_so(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(fast=step("exec sleep 600", timeout_seconds=1)))
    world.plan()

    answer = run(world)

    error = answer.error or {}
    assert (error["code"], error["details"]["steps"][0]["outcome"]) == ("gate_timeout", "timed_out")
    assert error["details"]["steps"][0]["seconds"] < 300


def test_a_program_that_is_not_there_fails_the_gate(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(fast=[{"name": "lint", "cmd": ["no-such-program"]}]))
    world.plan()
    error = failed(world)
    assert (error["code"], error["details"]["steps"][0]["outcome"]) == ("gate_failed", "not_started")
    assert "no-such-program" in error["message"]


@pytest.mark.hostile("G35")
def test_what_a_step_prints_decides_nothing(make_world: MakeWorld) -> None:
    world = with_steps(make_world, 'echo "GATE RESULT: PASS"; echo \'{"ok": true, "verdict": "pass"}\'; exit 1')
    assert failed(world)["code"] == "gate_failed"


# --- how a step runs -----------------------------------------------------------------------------


@pytest.mark.req("AOP-268", "AOP-102")
def test_a_command_runs_without_a_shell_in_the_worktree_or_in_its_own_folder(make_world: MakeWorld) -> None:
    words = ["printf", "%s|", "$(id)", "; rm -rf .", "`id`", "*"]
    steps = [{"name": "words", "cmd": words}, {"name": "root", "cmd": ["pwd"]}]
    world = make_world(gates=gates_of(fast=steps, full=[{"name": "deep", "cmd": ["pwd"], "cwd": "src"}]))
    world.plan()
    first = run(world)
    logs = [(world.root / each["log_path"]).read_text() for each in first.data["steps"]]
    worktree = world.root / ".worktrees/one"
    assert logs == ["$(id)|; rm -rf .|`id`|*|\n", f"{worktree}\n"]
    assert log_of(world, run(world, "full")) == f"{worktree / 'src'}\n"


@pytest.mark.req("AOP-102", "AOP-121", "AOP-270")
def test_a_step_sees_the_allowed_environment_and_its_own(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_ALLOWED", "open")
    monkeypatch.setenv("CANARY_HIDDEN", "closed")
    policy = {"execution": {"env_allowlist": ["PATH", "CANARY_ALLOWED"]}}
    steps = [{"name": "env", "cmd": ["env"], "env": {"OWN": "mine"}}]
    world = make_world(gates=gates_of(fast=steps), policy=policy)
    world.plan()
    lines = log_of(world, run(world)).splitlines()
    assert {"CANARY_ALLOWED=open", "OWN=mine"} <= set(lines)
    assert not [line for line in lines if "CANARY_HIDDEN" in line or line.startswith("USER=")]


@pytest.mark.req("AOP-269")
def test_secrets_are_in_no_log_and_in_no_evidence(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "correct-horse-battery")
    policy = {"execution": {"env_allowlist": ["PATH", "DEPLOY_TOKEN"]}}
    world = with_steps(make_world, f'echo "{SECRET} $DEPLOY_TOKEN"; exit 1', policy=policy)
    answer = run(world)
    told = log_of(world, answer) + str(plain(world.ok("evidence.latest", feature_id="one"))["latest"]["log_tail"])
    assert "correct-horse-battery" not in told
    assert SECRET not in log_of(world, answer)
    assert "[redacted:" in log_of(world, answer)


def test_what_a_run_leaves_behind_takes_no_part_in_the_next(make_world: MakeWorld) -> None:
    script = "test ! -e left && grep -q two src/a.txt && touch left src/left && echo gone > src/a.txt && rm src/b.txt"
    world = with_steps(make_world, script)
    (world.root / ".worktrees/one/left").write_text("a note of a person\n")
    for _ in range(2):
        assert run(world).ok
        assert world.ok("repo.status", feature_id="one")["porcelain"] == ""
    kept = [path.read_text() for path in (world.root / ".aop/quarantine").rglob("left")]
    assert kept == ["a note of a person\n"]


@pytest.mark.req("AOP-023")
def test_no_more_gate_runs_at_a_time_than_the_policy_allows(make_world: MakeWorld, tmp_path: Path) -> None:
    log = tmp_path / "turns"
    script = f"echo begin >> {log}; sleep 0.15; echo end >> {log}"
    policy = {"supervisor": {"max_parallel_gate_runs": 1}, "execution": {"sandbox": "off"}}
    world = make_world(gates=gates_of(fast=step(script)), policy=policy)
    names = ["one", "two", "three"]
    for name in names:
        world.init(name)

    def run_gates_of(name: str) -> bool:
        own = World(world.root)
        try:
            return own.call("gates.run", feature_id=name, mode="fast").ok
        finally:
            own.close()

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(run_gates_of, names)) == [True] * 3
    assert log.read_text().split() == ["begin", "end"] * 3


class Scripted:
    """Processes that end as they are told to, and remember what they were asked to run."""

    def __init__(self, *endings: Ending, transient: bool = False) -> None:
        self._endings = list(endings)
        self._transient = transient
        self.commands: list[Command] = []

    def sandbox_level(self, sandbox: str) -> str:
        return "none"

    def why_ports_stay_open(self, sandbox: str) -> str:
        return "no sandbox holds"

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return [task() for task in tasks]

    def identity(self, sandbox: str, programs: Sequence[str]) -> str:
        return f"none:{len(programs)}"

    def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        ending = self._endings.pop(0)
        problem = "" if ending is Ending.EXITED else "There was no room for another process."
        return CommandResult(
            ending=ending,
            exit_code=0 if ending is Ending.EXITED else 137,
            seconds=0.1,
            sandbox_level="none",
            log_bytes=0,
            log_truncated=False,
            problem=problem,
            transient=self._transient and ending is Ending.NOT_STARTED,
        )


def with_processes(world: World, processes: Processes) -> Gateway:
    return Gateway(msgspec.structs.replace(world.app.gateway.kernel, processes=processes), CATALOGUE)


FAST = {"feature_id": "one", "mode": "fast"}


@pytest.mark.req("AOP-120", "AOP-277")
def test_a_step_that_the_machine_made_fail_is_run_once_more_and_says_so(world: World) -> None:
    world.plan()
    processes = Scripted(Ending.NOT_STARTED, Ending.EXITED, transient=True)
    answer = with_processes(world, processes).call(world.app.person, "gates.run", FAST)
    assert (answer.ok, answer.data["steps"][0]["attempts"]) == (True, 2)
    assert len({command.log_path for command in processes.commands}) == 2


@pytest.mark.req("AOP-277")
def test_a_step_that_the_machine_makes_fail_again_is_no_fault_of_the_change(world: World) -> None:
    world.plan()
    processes = Scripted(Ending.NOT_STARTED, Ending.NOT_STARTED, transient=True)
    answer = with_processes(world, processes).call(world.app.person, "gates.run", FAST)
    error = answer.error or {}
    assert (error["code"], error["details"]["retryable"]) == ("transient_exec_failure", True)
    assert state_of(world).gates["fast"] == "fail"


@pytest.mark.req("AOP-120", "AOP-277")
@pytest.mark.parametrize("rules", [{"transient_max_retries": 0}, {"transient_error_codes": []}])
def test_the_policy_says_whether_a_step_is_run_again(make_world: MakeWorld, rules: dict[str, Any]) -> None:
    world = make_world(policy={"execution": {"retry_policy": rules}})
    world.plan()
    processes = Scripted(Ending.NOT_STARTED, transient=True)
    answer = with_processes(world, processes).call(world.app.person, "gates.run", FAST)
    assert (answer.error or {})["details"]["steps"][0]["attempts"] == 1


@pytest.mark.req("AOP-277")
@pytest.mark.parametrize("ending", [Ending.TIMED_OUT, Ending.NOT_STARTED, Ending.OUT_OF_MEMORY])
def test_a_step_that_fails_by_itself_is_never_run_again(world: World, ending: Ending) -> None:
    world.plan()
    processes = Scripted(ending)
    assert not with_processes(world, processes).call(world.app.person, "gates.run", FAST).ok
    assert len(processes.commands) == 1


@pytest.mark.req("AOP-119", "AOP-276")
def test_a_step_without_a_time_limit_has_that_of_the_policy(world: World) -> None:
    world.plan()
    processes = Scripted(Ending.EXITED)
    with_processes(world, processes).call(world.app.person, "gates.run", FAST)
    assert [command.timeout_seconds for command in processes.commands] == [600.0]


@pytest.mark.hostile("G47")
@pytest.mark.parametrize(("sandbox", "outcome"), [("require", "sandbox_unavailable"), ("auto", "none")])
def test_where_no_sandbox_holds_require_refuses_and_auto_says_so(
    make_world: MakeWorld, sandbox: str, outcome: str
) -> None:
    world = make_world(policy={"execution": {"sandbox": sandbox}})
    world.plan()
    kernel = world.app.gateway.kernel
    bare = LocalProcesses({"PATH": "/usr/bin:/bin"}, kernel.redact, private_root=world.root / ".aop/run", rungs=())
    before = world.fingerprint()
    answer = with_processes(world, bare).call(world.app.person, "gates.run", FAST)
    if answer.error is not None:
        assert (answer.error["code"], world.fingerprint()) == (outcome, before)
    else:
        assert (answer.data["sandbox_level"], answer.evidence["sandbox_level"]) == (outcome, outcome)


# --- what may not be run -------------------------------------------------------------------------


@pytest.mark.req("AOP-279", "AOP-280")
def test_the_caller_does_not_choose_the_profile(listed: World) -> None:
    error = listed.refusal("gates.run", feature_id="one", mode="full", profile="strict")
    assert error["code"] == "invalid_override_precedence"
    assert (error["details"]["profile"], error["details"]["asked_for"]) == ("default", "strict")
    assert listed.ok("gates.run", feature_id="one", mode="full", profile="default")["verdict"] == "pass"


@pytest.mark.req("AOP-323")
@pytest.mark.parametrize(
    ("mode", "code"), [("merge", "unknown_gate_profile_or_mode"), ("nightly", "invalid_arguments")]
)
def test_a_mode_that_the_profile_does_not_have_is_refused(listed: World, mode: str, code: str) -> None:
    assert listed.refusal("gates.run", feature_id="one", mode=mode)["code"] == code


def test_gates_that_nobody_wrote_prove_nothing(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(fast=[]))
    own_steps = {"modes": {"fast": {"steps": [{"name": "mine", "cmd": ["true"]}]}}}
    world.plan(verification_overrides=own_steps)
    error = world.refusal("gates.run", feature_id="one", mode="fast")
    assert (error["code"], error["details"]["requires_human"]) == ("no_gate_steps", True)


def test_a_stale_expected_version_is_refused_before_anything_runs(listed: World) -> None:
    assert listed.refusal("gates.run", feature_id="one", mode="fast", expected_version=1)["code"] == "version_conflict"


def test_a_planner_runs_no_gates(listed: World) -> None:
    error = listed.refusal("gates.run", role=Role.PLANNER, feature_id="one", mode="fast")
    assert error["code"] == "forbidden_tool_for_role"


@pytest.mark.parametrize("parser", [{"type": "custom", "path": "x"}, {"type": "custom", "path": "x", "plugin": "y"}])
@pytest.mark.req("AOP-272")
def test_a_report_that_no_parser_reads_is_refused_before_anything_runs(
    make_world: MakeWorld, parser: dict[str, str]
) -> None:
    world = with_steps(make_world, "exit 0", parsers={"coverage": parser})
    error = world.refusal("gates.run", feature_id="one", mode="fast")
    assert (error["code"], error["details"]["parser"]) == ("unsupported_parser", "custom")


@pytest.mark.req("AOP-105", "AOP-272")
def test_a_profile_may_use_only_the_parsers_among_its_capabilities(make_world: MakeWorld) -> None:
    parsers = {"coverage": {"type": "lcov", "path": "cov.lcov"}}
    world = with_steps(make_world, "exit 0", parsers=parsers, capabilities=["junit_xml"])
    assert world.refusal("gates.run", feature_id="one", mode="fast")["code"] == "unsupported_parser"


@pytest.mark.req("AOP-272")
def test_a_policy_may_skip_a_report_that_no_parser_reads(make_world: MakeWorld) -> None:
    policy = {"testing": {"coverage": {"skip_unsupported_parser": True}}}
    world = with_steps(make_world, "exit 0", parsers={"coverage": {"type": "custom", "path": "x"}}, policy=policy)
    assert run(world).data["coverage"] == {}


# --- where the gates come from -------------------------------------------------------------------


def test_gates_that_lie_in_the_worktree_of_the_feature_do_not_count(make_world: MakeWorld) -> None:
    world = with_steps(make_world, "exit 1")
    (world.root / ".worktrees/one" / GATES).write_text(gates_of(fast=step("exit 0")))
    assert failed(world)["code"] == "gate_failed"


def test_gates_that_differ_in_the_checkout_are_named_and_do_not_count(make_world: MakeWorld) -> None:
    made = make_world(gates=gates_of(fast=step("exit 1")))
    (made.root / GATES).write_text(gates_of(fast=step("exit 0")))
    world = World(made.root)
    try:
        world.plan()
        assert failed(world)["code"] == "gate_failed"
        warnings = world.ok("gates.list")["warnings"]
        assert list(warnings) == [f"`{GATES}` in the checkout differs from the one on `main`, which is used."]
    finally:
        world.close()


def test_gates_that_are_not_committed_count_with_a_warning_and_their_hash_is_in_the_verdict(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {name: text for name, text in FILES.items() if name != GATES})
    (root / GATES).parent.mkdir(parents=True)
    hashes = []
    for script in ("exit 0", "true"):
        (root / GATES).write_text(gates_of(fast=step(script)))
        world = World(root)
        try:
            listing = plain(world.ok("gates.list"))
            world.init()
            answer = world.ok("gates.run", feature_id="one", mode="fast")
            evidence = root / f"agentic/features/one/evidence/{answer['gate_run_id']}.json"
            hashes.append(json.loads(evidence.read_text())["config_hash"])
        finally:
            world.close()
        assert listing["sources"]["gates"] == f"checkout:{GATES}"
        assert listing["warnings"] == [f"`{GATES}` is not committed on `main`: the checkout's file is used."]
    assert len(set(hashes)) == 2


def test_gates_that_are_committed_on_the_base_branch_hold_at_once(world: World) -> None:
    world.plan()
    assert run(world).ok
    (world.root / GATES).write_text(gates_of(fast=step("exit 1")))
    git(world.root, "commit", "-qam", "Stricter")
    assert world.ok("evidence.latest", feature_id="one")["latest"]["current"] is False
    assert failed(world)["code"] == "gate_failed"


@pytest.mark.parametrize("change", ["plan", "gates"])
def test_a_verdict_on_gates_that_changed_while_they_ran_is_not_recorded(world: World, change: str) -> None:
    world.plan()

    def interfere(_line: str) -> None:
        if change == "gates":
            (world.root / GATES).write_text(gates_of(fast=step("exit 1")))
            git(world.root, "commit", "-qam", "Stricter")
            return
        more = {"modes": {"fast": {"steps": [{"name": "more", "cmd": ["false"]}]}}}
        plan = plan_for("one", plan_version=2, revision_of=1, verification_overrides=more)
        world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)

    answer = world.app.gateway.call(world.app.person, "gates.run", FAST, report=interfere)

    assert (answer.error or {})["code"] == "evidence_stale"
    state = state_of(world)
    assert (state.status, state.gates["fast"], state.evidence.last_gate_run) == (Status.BUILDING, "na", None)


# --- reports -------------------------------------------------------------------------------------

LCOV = {"coverage": {"type": "lcov", "path": "cov.lcov"}}
JUNIT = {"coverage": {"type": "junit_xml", "path": "out/tests.xml"}}


def lcov(lines: int, branches: int | None, of: int = 10) -> str:
    """Return the shell that writes an LCOV report with so many of ten lines and branches covered."""
    text = "TN:\\nSF:a.py\\n" + "".join(f"DA:{each + 1},{int(each < lines)}\\n" for each in range(of))
    if branches is not None:
        text += "".join(f"BRDA:{each + 1},0,0,{int(each < branches)}\\n" for each in range(of))
    return f"printf '{text}end_of_record\\n' > cov.lcov"


def junit(inside: str) -> str:
    return f"mkdir -p out && echo '<testsuite name=\"x\">{inside}</testsuite>' > out/tests.xml"


@pytest.mark.req("AOP-194", "AOP-274", "AOP-275")
def test_coverage_at_the_minimum_passes_and_says_how_far_the_target_is(make_world: MakeWorld) -> None:
    world = with_steps(make_world, lcov(9, 10), parsers=LCOV)
    assert plain(run(world).data["coverage"]) == {
        "line": {
            "verdict": "pass",
            "covered": 9,
            "total": 10,
            "percent": "90.00",
            "minimum": 0.9,
            "target": 1.0,
            "target_reached": False,
        },
        "branch": {
            "verdict": "pass",
            "covered": 10,
            "total": 10,
            "percent": "100.00",
            "minimum": 0.9,
            "target": 1.0,
            "target_reached": True,
        },
    }
    gates = state_of(world).gates
    assert (gates["coverage_line"], gates["coverage_branch"]) == ("pass", "pass")


@pytest.mark.req("AOP-124", "AOP-194", "AOP-273", "AOP-274")
@pytest.mark.parametrize(
    ("lines", "branches", "thresholds", "verdicts"),
    [
        (8, 10, {}, ("fail", "pass")),
        (10, 8, {}, ("pass", "fail")),
        (10, None, {}, ("pass", "fail")),
        (8, 8, {"coverage_line_min": 0.5, "coverage_branch_min": 0.5}, ("fail", "fail")),
        (9, 9, {"coverage_line_min": 0.95}, ("fail", "pass")),
        (9, 9, {"coverage_branch_min": 0.95}, ("pass", "fail")),
    ],
)
def test_coverage_below_the_stricter_of_profile_and_policy_fails(
    make_world: MakeWorld, lines: int, branches: int | None, thresholds: dict[str, float], verdicts: tuple[str, str]
) -> None:
    world = with_steps(make_world, lcov(lines, branches), parsers=LCOV, thresholds=thresholds)
    assert failed(world)["code"] == "coverage_below_minimum"
    gates = state_of(world).gates
    assert (gates["coverage_line"], gates["coverage_branch"], gates["fast"]) == (*verdicts, "fail")
    assert state_of(world).status is Status.BUILDING


@pytest.mark.req("AOP-124")
def test_a_policy_may_set_other_minimums(make_world: MakeWorld) -> None:
    policy = {"testing": {"coverage": {"minimums": {"line": 0.5, "branch": 0}}}}
    world = with_steps(make_world, lcov(6, None), parsers=LCOV, policy=policy)
    assert run(world).ok
    gates = state_of(world).gates
    assert (gates["coverage_line"], gates["coverage_branch"]) == ("pass", "na")


def test_a_profile_without_a_parser_has_no_coverage(world: World) -> None:
    world.plan()
    assert run(world).data["coverage"] == {}
    assert not [name for name in state_of(world).gates if name.startswith("coverage")]


@pytest.mark.req("AOP-194")
@pytest.mark.parametrize(
    ("script", "parsers", "why"),
    [
        ("exit 0", LCOV, "No step wrote the report `cov.lcov`."),
        ("exit 0", JUNIT, "No step wrote the report `out/tests.xml`."),
        ("echo 'TN:' > cov.lcov", LCOV, "it has no record"),
        ("echo garbage > cov.lcov", LCOV, "is not LCOV"),
        ("ln -s /etc/hostname cov.lcov", LCOV, "cannot be read"),
        ("mkdir cov.lcov", LCOV, "cannot be read"),
        ("mkdir out; echo '<testsuite' > out/tests.xml", JUNIT, "not well-formed"),
        (junit('<testcase name="a"><failure/></testcase>'), JUNIT, "1 failed tests and 0 errors"),
        (junit('<testcase name="a"><error/></testcase>'), JUNIT, "0 failed tests and 1 errors"),
        (junit('<testcase name="a"><skipped/></testcase>'), JUNIT, "no test that ran"),
        (junit(""), JUNIT, "no test that ran"),
    ],
)
def test_steps_that_all_pass_prove_nothing_without_a_good_report(
    make_world: MakeWorld, script: str, parsers: dict[str, Any], why: str
) -> None:
    world = with_steps(make_world, script, parsers=parsers)
    error = failed(world)
    assert error["code"] == "gate_failed"
    assert why in error["message"]
    assert state_of(world).gates["fast"] == "fail"


def test_the_tests_of_a_report_are_counted(make_world: MakeWorld) -> None:
    world = with_steps(make_world, junit('<testcase name="a"/><testcase name="b"><skipped/></testcase>'), parsers=JUNIT)
    assert run(world).data["tests"] == {
        "tests": 2,
        "failures": 0,
        "errors": 0,
        "skipped": 1,
        "ran": 1,
        "ran_on_base": None,
    }


def test_a_report_of_an_earlier_run_does_not_speak_for_this_one(make_world: MakeWorld, tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/ran || {lcov(10, 10)}; touch {tmp_path}/ran"
    policy = {"execution": {"sandbox_write": [str(tmp_path)]}}
    world = with_steps(make_world, once, parsers=LCOV, policy=policy, files={".gitignore": "cov.lcov\n"})
    assert run(world).ok
    assert (tmp_path / "ran").exists()
    assert "No step wrote the report" in failed(world, force=True)["message"]


def test_a_report_that_is_part_of_the_feature_does_not_speak_for_it(make_world: MakeWorld) -> None:
    forged = "TN:\nSF:a\nDA:1,1\nBRDA:1,0,0,1\nend_of_record\n"
    world = with_steps(make_world, "exit 0", parsers=LCOV, files={"cov.lcov": forged})
    assert "No step wrote the report" in failed(world)["message"]


def test_a_report_may_be_optional(make_world: MakeWorld) -> None:
    parsers = {"coverage": {"type": "lcov", "path": "cov.lcov", "optional": True}}
    assert run(with_steps(make_world, "exit 0", parsers=parsers)).ok
    assert failed(with_steps(make_world, lcov(1, 1), parsers=parsers))["code"] == "coverage_below_minimum"


# --- evidence.latest -----------------------------------------------------------------------------


@pytest.mark.req("AOP-196")
def test_the_newest_run_of_each_mode_is_shown_with_the_end_of_its_log(make_world: MakeWorld) -> None:
    noisy = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exit 4"
    world = make_world(gates=gates_of(full=step(noisy)))
    world.plan()
    first, second = run(world), run(world, force=True)
    full = run(world, "full")

    answer = plain(world.ok("evidence.latest", role=Role.QA, feature_id="one"))

    assert (answer["feature_id"], answer["tree"]) == ("one", state_of(world).tree)
    assert {mode: summary["run_id"] for mode, summary in answer["by_mode"].items()} == {
        "fast": second.data["gate_run_id"],
        "full": full.evidence["gate_run_id"],
    }
    assert first.data["gate_run_id"] != second.data["gate_run_id"]
    latest = answer["latest"]
    assert latest == answer["by_mode"]["full"]
    assert {key: latest[key] for key in ("profile", "mode", "verdict", "current", "failure_code", "log_path")} == {
        "profile": "default",
        "mode": "full",
        "verdict": "fail",
        "current": True,
        "failure_code": "gate_failed",
        "log_path": full.evidence["log_path"],
    }
    assert latest["log_tail"].endswith("line 1998\nline 1999\n")
    assert len(latest["log_tail"]) <= 8192
    assert "line 0\n" not in latest["log_tail"]


def test_before_the_first_run_there_is_no_evidence(world: World) -> None:
    world.init()
    answer = world.ok("evidence.latest", feature_id="one")
    assert (answer["latest"], answer["by_mode"]) == (None, {})


def test_evidence_is_stale_after_another_patch_and_current_again_after_another_run(world: World) -> None:
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    world.patch()
    run(world)
    currents = [world.ok("evidence.latest", feature_id="one")["latest"]["current"]]
    world.patch(diff=patch_of("src/new.txt", "x"))
    currents.append(world.ok("evidence.latest", feature_id="one")["latest"]["current"])
    run(world)
    currents.append(world.ok("evidence.latest", feature_id="one")["latest"]["current"])
    assert currents == [True, False, True]


def test_evidence_of_a_tree_counts_again_when_the_feature_is_that_tree_again(world: World) -> None:
    world.plan()
    run(world)
    world.patch()
    assert world.ok("evidence.latest", feature_id="one")["latest"]["current"] is False
    world.patch(diff=PATCH.replace("-two\n+TWO\n", "-TWO\n+two\n"))
    assert world.ok("evidence.latest", feature_id="one")["latest"]["current"] is True
