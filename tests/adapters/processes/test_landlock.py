"""The sandbox under Landlock: what it opens, what it cannot do as bubblewrap does, and what it makes up for that."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.sandbox.bubblewrap import FailedProof, Mount, system_view
from aop.adapters.processes.sandbox.landlock import Landlock, opened_paths
from aop.adapters.processes.sandbox.landlock_proof import prove_landlock
from aop.adapters.processes.sandbox.seccomp import PROCESSORS, filter_program
from aop.kernel.ports.processes import Ending
from tests.adapters.processes.steps import Steps
from tests.world import git, make_repository

pytestmark = [pytest.mark.on_disk, pytest.mark.skipif(sys.platform != "linux", reason="Landlock is a part of Linux")]


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path, "landlock")


@pytest.fixture
def linked(tmp_path: Path) -> Steps:
    """Steps in a linked worktree of a repository with one commit and an untracked file."""
    main = make_repository(tmp_path / "main", {"code.py": "x = 1\n"})
    (main / ".env").write_text("TOKEN=1\n")
    git(main, "worktree", "add", "-q", "-b", "feature", ".worktrees/feature")
    return Steps(tmp_path, "landlock", repository=main, worktree=main / ".worktrees" / "feature")


# --- which paths are opened ----------------------------------------------------------------------


def test_a_folder_with_something_closed_in_it_is_opened_part_by_part(tmp_path: Path) -> None:
    for name in ("open/a", "open/b/closed", "open/b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open" / "file").touch()
    (tmp_path / "open" / "link").symlink_to("b/closed")
    view = {
        f"{tmp_path}/open": Mount("--ro-bind", f"{tmp_path}/open"),
        f"{tmp_path}/open/b/closed": Mount("--tmpfs"),
        f"{tmp_path}/open/file": Mount("--ro-bind-data", ""),
    }
    assert sorted(opened_paths(view)) == [(f"{tmp_path}/open/a", False), (f"{tmp_path}/open/b/c", False)]


def test_what_may_only_be_read_is_left_out_of_a_folder_that_may_be_written(tmp_path: Path) -> None:
    for name in ("own/code", "own/settings"):
        (tmp_path / name).mkdir(parents=True)
    view = {
        f"{tmp_path}/own": Mount("--bind", f"{tmp_path}/own"),
        f"{tmp_path}/own/settings": Mount("--ro-bind", f"{tmp_path}/own/settings"),
    }
    assert sorted(opened_paths(view)) == [(f"{tmp_path}/own/code", True), (f"{tmp_path}/own/settings", False)]


def test_a_name_that_leads_elsewhere_opens_the_place_that_it_leads_to(tmp_path: Path) -> None:
    view = {
        f"{tmp_path}/name": Mount("--bind", f"{tmp_path}/real"),
        f"{tmp_path}/real": Mount("--bind", f"{tmp_path}/real"),
    }
    assert list(opened_paths(view)) == [(f"{tmp_path}/real", True)]


@pytest.mark.parametrize(("abi", "fields"), [(1, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)])
def test_the_kernel_is_told_no_more_than_it_knows(abi: int, fields: int) -> None:
    ruleset, opened, *_ = Landlock(abi=abi, processor="x86_64").restrictions({}, writable=["/own"], network="none")
    handled = struct.unpack(f"={fields}Q", ruleset)[0]
    assert handled.bit_length() == {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16}[abi]
    assert all(rights & ~handled == 0 for _, rights in opened)


@pytest.mark.parametrize(("network", "tcp"), [("none", 0b11), ("ports", 0b11), ("host", 0)])
def test_tcp_is_closed_unless_the_network_is_that_of_the_host(network: str, tcp: int) -> None:
    ruleset, *_ = Landlock(abi=4, processor="x86_64").restrictions({}, writable=(), network=network)
    assert struct.unpack("=2Q", ruleset)[1] == tcp


# --- whether it holds ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_every_version_of_landlock_holds_with_the_filter(tmp_path: Path, limit: int) -> None:
    proof = prove_landlock(tmp_path / "scratch", home=str(tmp_path), limit=limit)
    if proof == FailedProof("this kernel has no Landlock"):
        pytest.skip("this kernel has no Landlock")
    assert isinstance(proof, Landlock)
    assert proof.abi <= limit
    assert not (tmp_path / "scratch").exists()


def test_a_kernel_without_landlock_is_said_to_have_none(tmp_path: Path) -> None:
    assert prove_landlock(tmp_path / "scratch", home="/", limit=0) == FailedProof("this kernel has no Landlock")


def test_what_does_not_shut_a_process_in_is_not_taken_for_a_sandbox(tmp_path: Path) -> None:
    # The home of the user is what no step can list, and `/proc` is what every step can.
    unproven = prove_landlock(tmp_path / "scratch", home="/proc")
    assert isinstance(unproven, FailedProof)
    assert unproven.reason in (
        "Landlock does not shut a process in: worktree, program, home",
        "this kernel has no Landlock",
    )


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else")
def test_it_works_for_a_user_without_rights(steps: Steps) -> None:
    landlock = steps.processes._sandbox("require")
    assert isinstance(landlock, Landlock)
    script = "id -u; (echo x >/tmp/new) 2>/dev/null || echo shut in; grep NoNewPrivs /proc/self/status"
    with InheritedDescriptors() as handed:
        restrictions = landlock.restrictions(system_view("/home/aop", "none"), writable=(), network="none")
        argv = landlock.command(["/bin/sh", "-c", script], restrictions, env={}, cwd="/", handed=handed)
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "/usr/bin/python3", *argv[1:]]
        fds = handed.descriptors
        ended = subprocess.run(
            as_nobody, check=False, pass_fds=fds, input="\n", capture_output=True, text=True, timeout=300
        )
    if ended.returncode != 0:
        pytest.skip("this user cannot read the interpreter or AOP, or they are of another version")
    assert ended.stdout == "65534\nshut in\nNoNewPrivs:\t1\n"


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("abi", [1, 7])
@pytest.mark.parametrize("network", ["none", "host"])
def test_no_jump_of_the_filter_leads_out_of_it(processor: str, abi: int, network: str) -> None:
    program = filter_program(PROCESSORS[processor], network=network, landlock_abi=abi)
    instructions = list(struct.iter_unpack("=HBBI", program))
    jumps = [(place, code, then, otherwise) for place, (code, then, otherwise, _) in enumerate(instructions)]
    assert all(place + 1 + max(then, otherwise) < len(jumps) for place, code, then, otherwise in jumps if code & 7 == 5)
    assert instructions[-1][0] == 6


EPERM, EACCES, ENOSYS, KILL, ALLOW = 0x50001, 0x5000D, 0x50026, 0x80000000, 0x7FFF0000
NEW_USER, NEW_TIME, AF_UNIX, AF_INET, TYPES_INTO_TERMINAL = 0x10000000, 0x80, 1, 2, 0x5412


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(
    ("call", "arguments", "network", "answer"),
    [
        *((call, (), "host", EPERM) for call in ("mount", "setns", "keyctl", "add_key", "bpf", "perf_event_open")),
        *((call, (), "host", ENOSYS) for call in ("clone3", "io_uring_setup")),
        ("clone", (NEW_USER,), "host", EPERM),
        ("unshare", (NEW_USER,), "host", EPERM),
        ("unshare", (NEW_TIME,), "host", EPERM),
        ("clone", (17,), "none", ALLOW),
        ("ioctl", (0, TYPES_INTO_TERMINAL), "host", EPERM),
        ("ioctl", (0, 0x5401), "none", ALLOW),
        ("socket", (AF_INET, 1, 0), "none", EACCES),
        ("socket", (AF_UNIX, 1, 0), "none", ALLOW),
        ("socket", (AF_UNIX, 1, 0), "host", EACCES),
        ("connect", (), "none", EACCES),
        ("openat", (0, 0, 0), "none", ALLOW),
    ],
)
def test_the_filter_answers(processor: str, call: str, arguments: tuple[int, ...], network: str, answer: int) -> None:
    known = PROCESSORS[processor]
    program = filter_program(known, network=network, landlock_abi=7)
    assert answer_of(program, known.audit_number, known.calls[call], arguments) == answer


@pytest.mark.parametrize(("processor", "other"), [("x86_64", 0x40000003), ("aarch64", 0x40000028)])
def test_a_call_in_the_numbers_of_another_processor_ends_the_step(processor: str, other: int) -> None:
    program = filter_program(PROCESSORS[processor], network="host", landlock_abi=7)
    assert answer_of(program, other, 0, ()) == KILL
    assert answer_of(program, PROCESSORS[processor].audit_number, 0x40000000, ()) == ENOSYS


def answer_of(program: bytes, architecture: int, number: int, arguments: tuple[int, ...]) -> int:
    """Return what the kernel answers to a system call: the filter's instructions, one after the other."""
    seen = {0: number, 4: architecture, **{16 + 8 * at: value for at, value in enumerate((*arguments, *[0] * 6))}}
    instructions, at, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, then, otherwise, operand = instructions[at]
        if code == 0x06:
            return int(operand)
        at += 1
        if code in (0x15, 0x35):
            at += then if (value == operand if code == 0x15 else value >= operand) else otherwise
        else:
            value = seen[operand] if code == 0x20 else value & operand


# --- what it cannot do as bubblewrap does --------------------------------------------------------


def test_the_link_to_the_repository_is_put_back(linked: Steps) -> None:
    before = (linked.worktree / ".git").read_bytes()
    for script in (
        "echo gitdir: /tmp/evil >.git",
        "rm .git",
        "mv .git old",
        "rm .git; mkdir -p .git/hooks; touch .git/hooks/x; chmod 0 .git/hooks",
        "rm .git; ln -s /etc/passwd .git",
        "rm .git; mkfifo .git",
    ):
        linked.output("sh", "-c", script)
        assert not (linked.worktree / ".git").is_symlink()
        assert (linked.worktree / ".git").read_bytes() == before


def test_a_worktree_that_is_a_repository_itself_is_refused(tmp_path: Path) -> None:
    steps = Steps(tmp_path, "landlock", worktree=make_repository(tmp_path / "main", {"a": "b\n"}))
    ended, _ = steps.run("true")
    assert (ended.ending, ended.transient) == (Ending.NOT_STARTED, False)
    assert ended.problem == f"The worktree `{steps.worktree}` is a repository, which Landlock cannot keep as it is."


def test_the_repository_can_be_read_and_nothing_else_of_the_checkout(linked: Steps) -> None:
    assert linked.output("git", "log", "--format=%s") == "Begin\n"
    assert linked.output("git", "status", "--porcelain") == ""
    main = linked.folder / "main"
    for words in (["ls", str(main)], ["cat", f"{main}/.env"], ["cat", f"{main}/code.py"]):
        assert linked.run(*words)[0].exit_code != 0
    # Nor where the policy opens the folder around it.
    for opened in ({"readable": (str(linked.folder),)}, {"writable": (str(linked.folder),)}):
        assert linked.run("cat", f"{main}/.env", **opened)[0].exit_code != 0
        assert linked.run("sh", "-c", f"echo x >{main}/.git/config", **opened)[0].exit_code != 0
    assert linked.output("cat", f"{main}/.env", readable=(f"{main}/.env",)) == "TOKEN=1\n"


def test_folders_of_the_home_that_are_open_are_found_in_the_private_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (".cache/tool", ".config/tool", "closed"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_text(name)
    steps = Steps(tmp_path, "landlock", environ={"HOME": str(home), "PATH": "/usr/bin:/bin"})
    script = "cat ~/.cache/tool/file ~/.config/tool/file; echo new >~/.cache/tool/file; ls -A ~ ~/.cache"
    log = steps.output("sh", "-c", script, readable=("~/.config/tool",), writable=("~/.cache",))
    assert log.startswith(".cache/tool.config/tool")
    assert "closed" not in log
    assert (home / ".cache/tool/file").read_text() == "new\n"
    assert steps.run("sh", "-c", "echo x >~/.config/tool/file", readable=("~/.config/tool",))[0].exit_code != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read these files anyway")
def test_what_only_root_can_read_is_closed_when_aop_runs_as_root(steps: Steps) -> None:
    assert Path("/etc/shadow").read_bytes()
    assert steps.run("cat", "/etc/shadow")[0].exit_code != 0
    assert steps.output("sh", "-c", "cat /etc/passwd /etc/hosts >/dev/null; echo read") == "read\n"


def test_the_network_of_the_host_does_not_open_the_sockets_of_the_machine(steps: Steps) -> None:
    script = """
import socket
for family in (socket.AF_INET, socket.AF_UNIX):
    try:
        socket.socket(family)
        print(family.name)
    except PermissionError:
        print("refused")
print(len(socket.socketpair()))
"""
    assert steps.output("python3", "-c", script, network="host") == "AF_INET\nrefused\n2\n"
    assert steps.output("python3", "-c", script, network="none") == "refused\nAF_UNIX\n2\n"


# --- ordinary gates ------------------------------------------------------------------------------


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


@needs("python3")
def test_python_tests_with_pools_and_event_loops_run(steps: Steps) -> None:
    (steps.worktree / "test_sum.py").write_text(
        "import asyncio, unittest, sqlite3, ssl, tempfile, multiprocessing\n"
        "class Sum(unittest.TestCase):\n"
        "    def test_sum(self):\n"
        "        with tempfile.TemporaryDirectory(), multiprocessing.Pool(2) as pool:\n"
        "            self.assertEqual(pool.map(abs, [-1, -2]), [1, 2])\n"
        "        self.assertEqual(asyncio.run(asyncio.sleep(0, 3)), 3)\n"
    )
    assert steps.output("python3", "-m", "unittest", "-q").endswith("OK\n")


@needs("python3")
def test_a_virtual_environment_in_the_worktree_runs(steps: Steps) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", steps.worktree / ".venv"], check=True)
    assert steps.output(".venv/bin/python", "-c", "import sys; print(sys.prefix)") == f"{steps.worktree}/.venv\n"


@needs("node")
def test_node_runs(steps: Steps) -> None:
    script = "require('child_process').execSync('true'); console.log(require('os').tmpdir())"
    assert steps.output("node", "-e", script).startswith(str(steps.private_root))


@needs("gcc")
def test_a_program_is_compiled_and_runs(steps: Steps) -> None:
    (steps.worktree / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    assert steps.output("sh", "-c", "gcc main.c -o main && ./main") == "hello\n"


@pytest.mark.slow
@needs("java", "javac")
def test_java_finds_its_own_folders(steps: Steps) -> None:
    (steps.worktree / "Hello.java").write_text(
        "class Hello { public static void main(String[] a) throws Exception {"
        ' System.out.println(java.io.File.createTempFile("aop", "x"));'
        ' System.out.println(System.getProperty("user.home")); } }\n'
    )
    steps.output("javac", "Hello.java")
    _, file, home, _ = steps.output("java", "-Xshare:auto", "Hello").split("\n")
    assert [Path(path).parts[: len(steps.private_root.parts)] for path in (file, home)] == [
        steps.private_root.parts
    ] * 2


@pytest.mark.slow
@needs("cargo", "cc")
def test_cargo_builds_and_runs(steps: Steps) -> None:
    (steps.worktree / "src").mkdir()
    (steps.worktree / "Cargo.toml").write_text('[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n')
    (steps.worktree / "src" / "main.rs").write_text('fn main() { println!("hello"); }\n')
    assert steps.output("cargo", "run", "--offline", "--quiet") == "hello\n"
