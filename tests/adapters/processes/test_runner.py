"""Running a step: what it is given, how long it may take, and that nothing of it is left."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aop.adapters.processes.runner import LocalProcesses
from aop.core.errors import Fault, SandboxUnavailable
from aop.kernel.ports.processes import Command, CommandResult, Ending, Processes
from tests.adapters.processes.steps import Steps, processes_with, wait_until_dead

pytestmark = [pytest.mark.on_disk, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.fixture(params=["none", "landlock", "bubblewrap"])
def steps(tmp_path: Path, request: pytest.FixtureRequest) -> Steps:
    return Steps(tmp_path, request.param)


# --- what is run ---------------------------------------------------------------------------------


@pytest.mark.req("AOP-192", "AOP-268")
def test_a_step_runs_in_its_folder_and_both_of_its_streams_are_logged(steps: Steps) -> None:
    ended, log = steps.run("sh", "-c", "pwd; echo problem >&2; echo tok_0123456789abcdef; exit 3")
    assert log == f"{steps.worktree}\nproblem\n[token]\n"
    assert ended == CommandResult(
        ending=Ending.EXITED,
        exit_code=3,
        seconds=ended.seconds,
        sandbox_level=steps.level,
        log_bytes=len(log),
        log_truncated=False,
    )


@pytest.mark.req("AOP-268")
@pytest.mark.hostile("G41", "G42")
def test_arguments_reach_the_program_as_they_are(steps: Steps) -> None:
    words = ["; rm -rf x", "$(id)", "a b", "-rf", "--", "*", "line\nbreak", "é"]
    assert steps.output("printf", "%s|", *words) == "|".join(words) + "|\n"


def test_a_death_by_signal_is_reported_as_a_shell_does(steps: Steps) -> None:
    ended, _ = steps.run("sh", "-c", "kill -SEGV $$")
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 139)


def test_a_program_with_a_slash_is_looked_up_from_the_folder_of_the_step(steps: Steps) -> None:
    folder = steps.worktree / "sub"
    folder.mkdir()
    (folder / "gradlew").write_text("#!/bin/sh\necho own $1\n")
    (folder / "gradlew").chmod(0o755)
    assert steps.output("./gradlew", "check", cwd=folder) == "own check\n"


@pytest.mark.hostile("G43")
def test_a_program_in_the_worktree_is_never_found_by_its_name(steps: Steps) -> None:
    (steps.worktree / "bin").mkdir()
    (steps.folder / "link").symlink_to(steps.worktree / "bin")
    for folder in (steps.worktree, steps.worktree / "bin"):
        (folder / "true").write_text("#!/bin/sh\necho hijacked\n")
        (folder / "true").chmod(0o755)
    path = f"{steps.worktree}/bin:.::bin:{steps.folder}/link:{steps.folder}/absent:{os.environ['PATH']}"
    assert steps.output("true", env=(("PATH", path),)) == ""
    assert steps.output("sh", "-c", "true; echo $PATH", env=(("PATH", f"{path}:/usr/bin"),)) == (
        ":".join(dict.fromkeys(folder for folder in os.environ["PATH"].split(":") if os.path.isdir(folder))) + "\n"
    )


def test_a_program_that_is_not_there_is_named_with_the_path_that_was_searched(steps: Steps) -> None:
    ended, log = steps.run("no-such-program", env=(("PATH", "/usr/bin:/bin"),))
    assert (ended.ending, ended.exit_code) == (Ending.NOT_STARTED, None)
    assert ended.problem == "There is no program `no-such-program` on the PATH `/usr/bin:/bin`."
    assert log == ended.problem + "\n"


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        pytest.param("plain", "#!/bin/sh\n", 0o644, id="not-executable"),
        pytest.param("interpreted", "#!/no/such/interpreter\n", 0o755, id="no-interpreter"),
    ],
)
def test_what_cannot_be_executed_was_not_started(steps: Steps, name: str, text: str, mode: int) -> None:
    (steps.worktree / name).write_text(text)
    (steps.worktree / name).chmod(mode)
    ended, log = steps.run(f"./{name}")
    assert (ended.ending, ended.exit_code) == (Ending.NOT_STARTED, None)
    assert name in ended.problem
    assert ended.problem in log


@pytest.mark.req("AOP-277")
def test_what_did_not_start_for_a_reason_of_the_moment_is_told_from_what_never_will(steps: Steps) -> None:
    program = steps.worktree / "busy"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    with open(program, "r+b"):
        ended, _ = steps.run("./busy")
    assert (ended.ending, ended.exit_code, ended.transient) == (Ending.NOT_STARTED, None, True)
    assert ended.problem.endswith("Text file busy.")
    ended, _ = steps.run("./busy")
    assert (ended.ending, ended.exit_code, ended.transient) == (Ending.EXITED, 0, False)
    ended, _ = steps.run("./absent")
    assert (ended.ending, ended.transient) == (Ending.NOT_STARTED, False)


@pytest.mark.parametrize(
    ("argv", "env", "problem"),
    [
        ((), (), "The command is empty."),
        (("",), (), "The command is empty."),
        (("true", "a\0b"), (), "The argument 'a\\x00b' holds a NUL character."),
        (("true", "\ud800"), (), "The argument '\\ud800' is not text."),
        (("true",), (("A", "secret\0"),), "The variable 'A' holds a NUL character."),
        (("true",), (("A=B", "c"),), "'A=B' cannot be the name of a variable."),
        (("true",), (("", "c"),), "'' cannot be the name of a variable."),
    ],
)
@pytest.mark.hostile("G41")
def test_what_no_process_can_be_given_is_said_so(
    steps: Steps, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], problem: str
) -> None:
    ended, _ = steps.run(*argv, env=env)
    assert (ended.ending, ended.problem) == (Ending.NOT_STARTED, problem)


def test_a_step_is_not_started_in_a_folder_that_leads_out_of_the_worktree(steps: Steps) -> None:
    (steps.worktree / "out").symlink_to("/")
    for folder in (steps.worktree / "out", steps.worktree / "absent", steps.worktree.parent):
        ended, _ = steps.run("pwd", cwd=folder)
        assert ended.ending is Ending.NOT_STARTED
        assert ended.problem == f"The folder `{folder}` is not in the worktree `{steps.worktree}`."


# --- what it is given ----------------------------------------------------------------------------


@pytest.mark.req("AOP-270")
@pytest.mark.parametrize("level", ["none", "landlock", "bubblewrap"])
def test_a_step_gets_only_the_allowed_part_of_the_environment(tmp_path: Path, level: str) -> None:
    environ = {
        "PATH": "/usr/bin:/bin",
        "AWS_KEY": "secret",
        "BUILD": "7",
        "LANG": "de_DE",
        "TMPDIR": "/x",
        "PYTHONPATH": "/y",
    }
    steps = Steps(tmp_path, level, environ=environ)
    log = steps.output("env", env_allowlist=("BUILD", "LANG", "HOME", "TMPDIR", "ABSENT"), env=(("MODE", "fast"),))
    found = dict(line.split("=", 1) for line in log.splitlines())
    home, tmp = found.pop("HOME"), found.pop("TMPDIR")
    tools = {"ASDF_DATA_DIR", "MISE_DATA_DIR", "PYENV_ROOT", "RUSTUP_HOME", "VOLTA_HOME", "AOP_STEP_ID", "PWD"}
    tools |= {"JAVA_TOOL_OPTIONS"} if level == "landlock" else set()
    assert {name: value for name, value in found.items() if name not in tools} == {
        "BUILD": "7",
        "CI": "true",
        "LANG": "de_DE",
        "LC_ALL": "C.UTF-8",
        "MODE": "fast",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": "315532800",
    }
    if level == "bubblewrap":
        assert (home, tmp) == (os.environ["HOME"], "/tmp")
    else:
        assert {Path(home).parent.parent, Path(tmp).parent.parent} == {steps.private_root}


def test_the_variables_of_a_step_come_last(steps: Steps) -> None:
    env = (("CI", "no"), ("HOME", "/elsewhere"), ("PATH", "/usr/bin"))
    assert steps.output("sh", "-c", "echo $CI $HOME $PATH", env=env) == "no /elsewhere /usr/bin\n"


def test_home_and_temporary_files_are_private_and_gone_afterwards(steps: Steps) -> None:
    steps.worktree.chmod(0o755)
    script = "touch ~/a $TMPDIR/b && mkdir -p ~/cache/x && chmod 0 ~/cache/x && chmod 500 ~/cache && ln -s $PWD ~/link"
    assert steps.output("sh", "-c", f"{script} && ls ~").split()[-2:] == ["cache", "link"]
    assert steps.output("sh", "-c", "ls ~/a $TMPDIR/b 2>/dev/null || echo none") == "none\n"
    assert list(steps.private_root.iterdir()) == []
    assert steps.worktree.stat().st_mode & 0o777 == 0o755


@pytest.mark.hostile("G39")
def test_a_step_that_reads_its_input_finds_none(steps: Steps) -> None:
    assert steps.output("cat") == ""
    assert steps.output("sh", "-c", "(: </dev/tty) 2>/dev/null || echo no terminal") == "no terminal\n"


@pytest.mark.hostile("G15")
def test_no_descriptor_is_inherited(steps: Steps) -> None:
    secret = os.open(steps.folder / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    try:
        # The fourth is the folder that `ls` itself reads.
        assert steps.output("ls", "/proc/self/fd").split() == ["0", "1", "2", "3"]
    finally:
        os.close(secret)


@pytest.mark.hostile("G51")
def test_a_step_cannot_dump_its_memory_to_a_file(steps: Steps) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        assert steps.output("sh", "-c", "ulimit -c") == "0\n"
        assert resource.getrlimit(resource.RLIMIT_CORE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


# --- how long it may take ------------------------------------------------------------------------


@pytest.mark.req("AOP-276")
def test_a_step_that_exceeds_its_time_is_asked_to_end(steps: Steps) -> None:
    script = "trap 'echo tidied up; exit 0' TERM; echo began; sleep 600 & wait"
    ended, log = steps.run_too_long(script, grace_seconds=300)
    assert log == "began\ntidied up\n"
    assert (ended.ending, ended.exit_code) == (Ending.TIMED_OUT, None)
    assert ended.problem == "It did not end within 0.2 seconds."
    assert 0.2 <= ended.seconds < 30


@pytest.mark.req("AOP-276")
@pytest.mark.hostile("G38")
def test_a_step_that_ignores_being_asked_is_killed(steps: Steps) -> None:
    ended, log = steps.run_too_long("trap '' TERM; echo began; while :; do sleep 1; done", grace_seconds=0.5)
    assert (ended.ending, log) == (Ending.TIMED_OUT, "began\n")
    assert 0.7 <= ended.seconds < 30


@pytest.mark.req("AOP-276")
def test_endless_output_does_not_outlast_the_time_limit(steps: Steps) -> None:
    ended, log = steps.run_too_long("exec yes", grace_seconds=0.5)
    assert (ended.ending, ended.seconds < 30) == (Ending.TIMED_OUT, True)
    assert 0 < log.count("y\n") <= 200_000


@pytest.mark.hostile("G27")
@pytest.mark.parametrize(("script", "exit_code"), [("exit 0", 0), ("exit 4", 4)])
def test_a_grandchild_that_holds_the_pipe_neither_delays_nor_decides(steps: Steps, script: str, exit_code: int) -> None:
    ended, log = steps.run("sh", "-c", f"setsid sleep 600 & echo done; {script}")
    assert (ended.ending, ended.exit_code, log) == (Ending.EXITED, exit_code, "done\n")


@pytest.mark.hostile("G27")
def test_a_time_limit_holds_for_a_grandchild_that_holds_the_pipe(steps: Steps) -> None:
    script = "setsid sh -c 'trap \"\" TERM; echo began; sleep 600' & sleep 600"
    ended, _ = steps.run_too_long(script, grace_seconds=0.5)
    assert ended.ending is Ending.TIMED_OUT
    assert ended.seconds < 30


# --- what is left of it --------------------------------------------------------------------------


@pytest.mark.hostile("G25")
@pytest.mark.parametrize(
    "start",
    [
        pytest.param("sh -c '{sleep}' & ", id="background"),
        pytest.param("setsid sh -c '{sleep}' >/dev/null 2>&1 </dev/null & sleep 0.1; ", id="daemon"),
        pytest.param("(setsid sh -c 'setsid {sleep} &' >/dev/null 2>&1 &) ; sleep 0.1; ", id="twice-removed"),
    ],
)
def test_nothing_that_a_step_started_outlives_it(steps: Steps, start: str) -> None:
    unique = f"600.{uuid.uuid4().int % 10**12}"
    ended, _ = steps.run("sh", "-c", start.format(sleep=f"sleep {unique}") + "exit 0")
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 0)
    wait_until_dead(processes_with(unique))
    assert processes_with(unique) == []


@pytest.mark.parametrize("level", ["none", "landlock", "bubblewrap"])
def test_a_step_is_ended_when_the_caller_is_interrupted(tmp_path: Path, level: str) -> None:
    unique = f"600.{uuid.uuid4().int % 10**12}"

    def interrupt(text: str) -> str:
        raise KeyboardInterrupt(text)

    rungs = Steps(tmp_path, level).rungs
    processes = LocalProcesses(os.environ, interrupt, private_root=tmp_path / "private", rungs=rungs)
    command = Command(
        argv=("sh", "-c", f"echo now; setsid sleep {unique} & sleep {unique}"),
        cwd=tmp_path,
        worktree=tmp_path,
        env=(),
        env_allowlist=(),
        timeout_seconds=300,
        log_path=tmp_path / "log",
    )
    with pytest.raises(KeyboardInterrupt):
        processes.run(command)
    wait_until_dead(processes_with(unique))
    assert processes_with(unique) == []


def test_steps_of_many_threads_neither_end_nor_hold_up_each_other(steps: Steps) -> None:
    with ThreadPoolExecutor(4) as pool:
        logs = list(pool.map(lambda number: steps.output("sh", "-c", f"sleep 0.{number}; echo {number}"), range(8)))
    assert logs == [f"{number}\n" for number in range(8)]


def test_memory_stays_flat_whatever_a_step_prints(steps: Steps) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended, log = steps.run("sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 60000000; exit 5")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (ended.exit_code, ended.log_truncated, grown < 20 * 1024) == (5, True, True)
    assert len(log) <= 8 << 20


@pytest.fixture
def memory_group() -> Iterator[Path]:
    group = Path("/sys/fs/cgroup/memory") / f"aop-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("33554432")
    except OSError:
        pytest.skip("needs a memory control group of its own (root, version 1)")
    yield group
    group.rmdir()


@pytest.mark.hostile("G29")
def test_a_step_that_the_kernel_kills_for_want_of_memory_is_not_a_failed_test(
    tmp_path: Path, memory_group: Path
) -> None:
    hog = "x = bytearray(1)\nwhile True: x += bytes(1 << 20)"
    script = f'echo $$ > {memory_group}/cgroup.procs; exec "$0" -c "$1"'
    ended, _ = Steps(tmp_path, "none").run("sh", "-c", script, sys.executable, hog)
    assert (ended.ending, ended.exit_code) == (Ending.OUT_OF_MEMORY, 137)
    assert ended.problem == "The kernel killed it, because the memory was used up."


def test_a_step_that_kills_itself_has_not_run_out_of_memory(steps: Steps) -> None:
    ended, _ = steps.run("sh", "-c", "kill -KILL $$")
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 137)


# --- the level of the sandbox --------------------------------------------------------------------


def without_sandbox(folder: Path) -> Processes:
    return LocalProcesses({"PATH": "/usr/bin:/bin"}, str, private_root=folder / "private", rungs=())


@pytest.mark.hostile("G47")
def test_without_a_sandbox_auto_runs_and_says_so(tmp_path: Path) -> None:
    processes = without_sandbox(tmp_path)
    assert processes.sandbox_level("auto") == "none"
    assert processes.sandbox_level("off") == "none"
    command = Command(
        argv=("true",),
        cwd=tmp_path,
        worktree=tmp_path,
        env=(),
        env_allowlist=(),
        timeout_seconds=300,
        log_path=tmp_path / "log",
    )
    ended = processes.run(command)
    assert (ended.ending, ended.exit_code, ended.sandbox_level) == (Ending.EXITED, 0, "none")


@pytest.mark.hostile("G47")
def test_without_a_sandbox_require_refuses(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable) as refused:
        without_sandbox(tmp_path).sandbox_level("require")
    assert refused.value.message == "No sandbox holds on this machine: none may be used."


def test_an_unknown_setting_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="`on` is not a setting"):
        without_sandbox(tmp_path).sandbox_level("on")
