"""Custom commands: input, sandbox, time limits and bad answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.staff import feature_scratch, role_prompts, shipped_prompt
from aop.adapters.agents.workers.command import (
    CommandContext,
    CustomWorker,
    TurnTimeouts,
    TurnWatch,
    command_from,
    split_command,
)
from aop.core.errors import MissingRolePrompt, NoUsableAnswer, ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.features.lifecycle import stopped_reason
from aop.kernel.features.worktree_extras import environment_of
from aop.supervisor.workers import Note, ToolResult, WorkerInput
from tests.world import FILES, World, make_repository

ONE = FeatureId("one")
GIVEN = WorkerInput(
    role=Role.BUILDER,
    feature_id=ONE,
    context_bundle={"spec": "Say TWO."},
    instructions="Build.",
    last_tool_results=(ToolResult(tool="gates.run", ok=False, log_tail="Error"),),
    provider="custom",
    model=None,
    provider_config_ref="MY_AGENT",
)


class Agents:
    """Agents of one line or more of Python, for a feature that has been patched."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self._folder = folder
        self.timeouts = TurnTimeouts(seconds=300.0, spawn_seconds=300.0, idle_seconds=0)

    def turn(self, code: str) -> Any:
        script = self._folder / "agent with a space.py"
        script.write_text(f"import json, os, sys, time\n{code}\n")
        return self.worker(f"{sys.executable} '{script}' 'a $(word)'").turn(GIVEN)

    def note(self, expression: str) -> Any:
        """Return what an agent finds out."""
        output = self.turn(f'print(json.dumps({{"type": "NOTE", "note": json.dumps({expression})}}))')
        assert isinstance(output, Note)
        return msgspec.json.decode(output.note)

    def worker(self, command: str) -> CustomWorker:
        kernel = self.world.app.gateway.kernel
        around = CommandContext(
            processes=kernel.processes,
            rules=lambda: kernel.config().policy.execution,
            scratch=feature_scratch(kernel),
            environment=lambda feature_id: environment_of(kernel, feature_id, kernel.config().policy.worktree),
            private=self.world.root / ".aop/tmp",
            logs=self.world.root / ".aop/logs",
            path="/usr/bin:/bin",
            timeouts=self.timeouts,
            stopped=partial(stopped_reason, kernel),
        )
        return CustomWorker(split_command(command), around)

    def left(self) -> list[Path]:
        return [path for name in ("tmp", "scratch") for path in (self.world.root / ".aop" / name).glob("*")]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.patch("one")
    yield Agents(world, tmp_path)
    world.close()


@pytest.mark.req("AOP-233")
def test_an_agent_gets_one_object_with_everything_on_its_standard_input(agents: Agents) -> None:
    assert agents.note("json.load(sys.stdin)") == {
        "schema": 1,
        "role": "builder",
        "feature_id": "one",
        "context_bundle": {"spec": "Say TWO."},
        "instructions": "Build.",
        "last_tool_results": [{"tool": "gates.run", "ok": False, "log_tail": "Error"}],
        "provider": "custom",
        "model": None,
        "provider_config_ref": "MY_AGENT",
    }
    assert agents.left() == []


def test_no_shell_reads_the_words_of_the_command(agents: Agents) -> None:
    assert agents.note("sys.argv[1:]") == ["a $(word)"]


def test_an_agent_stands_in_a_copy_of_the_features_tree_that_is_thrown_away(agents: Agents) -> None:
    seen = agents.note("[open('src/a.txt').read(), open('src/new.txt', 'w').write('mine'), os.listdir('src')]")
    assert seen == ["one\nTWO\nthree\n", 4, seen[2]]
    assert sorted(seen[2]) == ["a.txt", "b.txt", "new.txt"]
    assert not (agents.world.root / ".worktrees/one/src/new.txt").exists()
    assert agents.left() == []


def test_an_agent_gets_only_the_allowed_part_of_the_environment(agents: Agents) -> None:
    allowed = {"CI", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "PWD", "SOURCE_DATE_EPOCH", "TMPDIR", "TZ"}
    allowed |= {"JAVA_HOME", "OLDPWD", "PYTHONDONTWRITEBYTECODE", "SHLVL", "_"}
    assert set(agents.note("sorted(os.environ)")) - allowed == {
        *(f"AOP_PORT_{number}" for number in range(4)),
        "AOP_DATABASE",
    }


def test_an_agent_cannot_read_the_record_or_write_the_repository(agents: Agents) -> None:
    root = agents.world.root
    if agents.world.app.gateway.kernel.processes.sandbox_level("auto") == "none":
        pytest.skip("this machine has no sandbox")
    found = agents.note(f"[os.path.exists({str(root / '.aop/record.db')!r}), os.access({str(root)!r}, os.W_OK)]")
    assert found[0] is False


BAD: dict[str, tuple[str, str, str]] = {
    "no JSON": ("print('The weather is nice.')", "no_usable_answer", "It begins with: The weather is nice."),
    "two objects": ('print(\'{"type": "NOTE", "note": "a"}\' * 2)', "no_usable_answer", "not a valid proposal"),
    "an unknown type": ('print(\'{"type": "MERGE"}\')', "no_usable_answer", "not a valid proposal"),
    "an unknown key": ('print(\'{"type": "NOTE", "note": "a", "x": 1}\')', "no_usable_answer", "not a valid proposal"),
    "nothing": ("pass", "no_usable_answer", "It is empty."),
    "a failure": (
        "print('{}'); print('No room.', file=sys.stderr); sys.exit(3)",
        "agent_failed",
        "The agent exited with code 3. Its last lines: No room.",
    ),
    "a crash": (
        "import signal; print('Here.', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGSEGV)",
        "agent_crashed",
        "The agent crashed: SIGSEGV (exit code 139). Its last lines: Here.",
    ),
    "no log-in": (
        "sys.exit('Invalid API key - Please run /login')",
        "agent_not_logged_in",
        "It says: Invalid API key - Please run /login",
    ),
    "no program": (
        "os.execv('/bin/sh', ['sh', '-c', 'exec no-such-program'])",
        "agent_not_started",
        "The agent's program was not found (exit code 127).",
    ),
    "too much": (
        "\nwhile True: sys.stdout.write('x' * 65536)",
        "agent_output_too_large",
        "larger than 8388608 bytes",
    ),
}


@pytest.mark.parametrize(("code", "name", "says"), BAD.values(), ids=BAD)
def test_a_turn_without_an_answer_is_refused_by_the_name_of_its_cause(
    agents: Agents, code: str, name: str, says: str
) -> None:
    with pytest.raises(NoUsableAnswer) as refused:
        agents.turn(code)
    assert (refused.value.code, says in refused.value.message) == (name, True), refused.value.message
    assert agents.left() == []


def test_a_secret_in_the_last_lines_of_an_agent_is_masked(agents: Agents) -> None:
    key = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with pytest.raises(NoUsableAnswer) as refused:
        agents.turn(f"sys.exit('The token is {key}')")
    assert key not in str(refused.value.as_error())


def test_an_agent_that_takes_too_long_is_ended(agents: Agents) -> None:
    agents.timeouts = TurnTimeouts(seconds=0.5, spawn_seconds=300.0, idle_seconds=0)
    with pytest.raises(NoUsableAnswer, match="did not end within"):
        agents.turn("time.sleep(1000)")


def test_an_agent_that_falls_silent_is_ended_before_its_time(agents: Agents) -> None:
    agents.timeouts = TurnTimeouts(seconds=300.0, spawn_seconds=300.0, idle_seconds=0.5)
    with pytest.raises(NoUsableAnswer, match=r"had printed nothing after 0\.5 seconds"):
        agents.turn('print("thinking", file=sys.stderr, flush=True); time.sleep(1000)')


def test_an_agent_may_be_silent_as_long_as_it_writes_to_its_answer_or_to_its_log(tmp_path: Path) -> None:
    clock, heard = [0.0], [0]
    begun = tmp_path / "begun"
    timeouts = TurnTimeouts(seconds=300.0, spawn_seconds=5.0, idle_seconds=10.0)
    watch = TurnWatch(begun, lambda: heard[0], timeouts, lambda: clock[0], str)
    begun.touch()
    says = []
    for now, answer_bytes, silent_seconds in ((9, 0, 9), (18, 1, 18), (27, 1, 27), (28, 1, 2), (29, 1, 11)):
        clock[0], heard[0] = now, answer_bytes
        says.append(watch.ends_early(silent_seconds))
    assert says == ["", "", "", "", "The command had printed nothing after 10 seconds."]


def test_an_agent_that_does_not_begin_is_not_waited_for(tmp_path: Path) -> None:
    clock = [0.0]
    timeouts = TurnTimeouts(seconds=300.0, spawn_seconds=5.0, idle_seconds=0)
    watch = TurnWatch(tmp_path / "begun", lambda: 0, timeouts, lambda: clock[0], str)
    assert watch.ends_early(0) == ""
    clock[0] = 5.0
    assert watch.ends_early(5) == "The command had not started after 5 seconds."
    (tmp_path / "begun").touch()
    assert watch.ends_early(5) == ""


def test_what_an_agent_says_beside_its_answer_is_kept_in_its_log(agents: Agents) -> None:
    agents.turn('print("thinking", file=sys.stderr); print(json.dumps({"type": "NOTE", "note": "n"}))')
    assert (agents.world.root / ".aop/logs/one/builder.log").read_text() == "thinking\n"


@pytest.mark.req("AOP-314")
@pytest.mark.parametrize("command", ["", "   ", "agent 'unclosed"])
def test_a_command_that_names_nothing_is_refused(agents: Agents, command: str) -> None:
    with pytest.raises(ProviderAuthMissing):
        agents.worker(command_from({"AOP_CUSTOM_AGENT": command}, None))


def test_a_program_that_is_not_there_is_no_answer(agents: Agents) -> None:
    with pytest.raises(NoUsableAnswer):
        agents.worker("no-such-program-anywhere").turn(GIVEN)


# --- prompts -------------------------------------------------------------------------------------------


@pytest.mark.req("AOP-033", "AOP-139", "AOP-228")
def test_a_role_is_told_what_the_base_branch_says_or_else_what_aop_says(tmp_path: Path) -> None:
    prompt = "agentic/orchestrator/prompts/planner.system.md"
    world = World(make_repository(tmp_path / "repo", {**FILES, prompt: "Plan small.\n"}))
    (world.root / prompt).write_text("Plan big.\n")
    prompts = role_prompts(world.app.repository, world.app.gateway.kernel.config())
    world.close()
    assert prompts == {
        Role.PLANNER: "Plan small.\n",
        Role.BUILDER: shipped_prompt(Role.BUILDER),
        Role.QA: shipped_prompt(Role.QA),
    }


@pytest.mark.req("AOP-140", "AOP-228")
def test_a_prompt_that_must_be_there_and_is_not_is_refused(tmp_path: Path) -> None:
    agents_yaml = "version: 1\nmissing_prompt_behavior: error\n"
    world = World(make_repository(tmp_path / "repo", {**FILES, "agentic/orchestrator/agents.yaml": agents_yaml}))
    with pytest.raises(MissingRolePrompt):
        role_prompts(world.app.repository, world.app.gateway.kernel.config())
    world.close()
