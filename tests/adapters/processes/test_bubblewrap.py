"""The sandbox: what a step cannot reach from inside, and the ordinary gates that must work there all the same."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.runner import LocalProcesses
from aop.adapters.processes.sandbox.bubblewrap import Bubblewrap, FailedProof, Mount, prove, system_view
from aop.kernel.config.policy import NO_LIMITS
from aop.kernel.ports.processes import Ending
from tests.adapters.processes.steps import Steps, processes_with
from tests.racing import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program of Linux")


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path, "bubblewrap")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "user"
    folder.mkdir(parents=True)
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def linked(tmp_path: Path) -> Steps:
    """Steps in a linked worktree of a repository with one commit and an untracked file."""
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    (main / "code.py").write_text("x = 1\n")
    git(main, "add", "code.py")
    git(main, "commit", "-q", "-m", "The first commit")
    (main / ".env").write_text("TOKEN=1\n")
    worktree = main / ".aop" / "worktrees" / "feature"
    git(main, "worktree", "add", "-q", "-b", "feature", str(worktree))
    return Steps(tmp_path, "bubblewrap", repository=main, worktree=worktree)


# --- options -------------------------------------------------------------------------------------


SHUTS_IN = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
    *("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "aop"),
    *("--uid", "1000", "--gid", "1000", "--clearenv"),
    *("--tmpfs", "/private", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/work"),
)


def test_a_step_is_started_with_every_option_that_shuts_it_in() -> None:
    """Where one is missing the proof fails, and what needs bubblewrap is skipped: so the options are read here."""
    bubblewrap = Bubblewrap(program="bwrap", options=frozenset(("--disable-userns",)))
    with InheritedDescriptors() as handed:
        view = {"/private": Mount("--tmpfs")}
        argv = bubblewrap.command(["true"], view, env={}, cwd="/work", network="none", handed=handed)
        options = os.pread(int(argv[2]), 10_000, 0).decode().split("\0")
    assert tuple(options[: options.index("--json-status-fd")]) == SHUTS_IN
    assert (argv[:2], argv[3:]) == (["bwrap", "--args"], ["--", "true"])


def test_a_step_has_private_folders_in_place_of_those_of_the_machine() -> None:
    view = system_view("/home/aop", "none")
    private = ("/tmp", "/var/tmp", "/dev/shm", "/home/aop")
    assert {place: view[place] for place in private} == dict.fromkeys(private, Mount("--tmpfs"))


# --- files ---------------------------------------------------------------------------------------


def test_only_the_worktree_and_private_folders_can_be_written(steps: Steps) -> None:
    (steps.folder / "outside").write_text("before")
    script = """
        for place in . ~ /tmp /var/tmp /dev/shm; do echo x >$place/new && echo wrote; done
        for place in / /usr /etc /opt /dev /proc; do (echo x >$place/new) 2>/dev/null && echo escaped to $place; done
        echo x >../outside
    """
    assert steps.output("sh", "-c", script) == "wrote\n" * 5
    assert (steps.worktree / "new").read_text() == "x\n"
    assert (steps.folder / "outside").read_text() == "before"


def test_the_home_of_the_user_is_not_seen(tmp_path: Path, home: Path) -> None:
    (home / ".netrc").write_text("password")
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "PATH": "/usr/bin:/bin"})
    assert steps.output("sh", "-c", "echo $HOME; ls -A ~") == f"{home}\n"


@pytest.mark.hostile("G10", "G13")
def test_the_repository_can_be_read_and_not_written(linked: Steps) -> None:
    assert linked.output("git", "log", "--format=%s") == "The first commit\n"
    assert linked.output("git", "status", "--porcelain") == ""
    assert linked.output("git", "describe", "--always", "--all") == "heads/feature\n"
    git_dir = linked.folder / "main" / ".git"
    for script in (
        f"echo evil >{git_dir}/hooks/post-checkout",
        "git update-ref refs/replace/x HEAD",
        "git config core.hooksPath /tmp",
        "git commit --allow-empty -m evil",
        "echo gitdir: /tmp/evil >.git",
        "mv .git old",
        "rm .git",
    ):
        ended, _ = linked.run("sh", "-c", script)
        assert ended.exit_code != 0, script
    assert not (git_dir / "hooks" / "post-checkout").exists()


def test_nothing_else_of_the_main_checkout_is_seen(linked: Steps) -> None:
    main = linked.folder / "main"
    assert linked.output("ls", "-A", str(main)).split() == [".aop", ".git"]
    assert linked.output("ls", "-A", str(main / ".aop")).split() == ["worktrees"]


def test_the_policy_opens_folders_for_reading_and_for_writing(tmp_path: Path, home: Path) -> None:
    for name in ("cache", "store", "closed"):
        (home / name).mkdir()
        (home / name / "file").write_text(name)
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "PATH": "/usr/bin:/bin"})
    script = "cat ~/cache/file ~/store/file; (echo new >~/store/file) 2>/dev/null; echo new >~/cache/file; ls -A ~"
    log = steps.output(
        "sh", "-c", script, readable=("~/store", "~/absent", "relative"), writable=(str(home / "cache"), "/absent")
    )
    assert log == "cachestorecache\nstore\n"
    assert [(home / name / "file").read_text() for name in ("cache", "store")] == ["new\n", "store"]


def test_no_policy_opens_the_main_checkout_as_a_whole(linked: Steps) -> None:
    main = linked.folder / "main"
    for folder in (main, linked.folder):
        log = linked.output("sh", "-c", f"ls -A {main}", readable=(str(folder),), writable=(str(folder),))
        assert log.split() == [".aop", ".git"]
    assert linked.output("cat", str(main / ".env"), readable=(str(main / ".env"),)) == "TOKEN=1\n"


def test_no_policy_opens_what_is_git_s_or_aop_s_own(linked: Steps) -> None:
    main = linked.folder / "main"
    for place in (".git/info/exclude", ".git/objects/secret", ".aop/keys/secret", ".worktrees/other/secret"):
        (main / place).parent.mkdir(parents=True, exist_ok=True)
        (main / place).write_text("hidden\n")
        for folder in (linked.folder, main, (main / place).parent.parent, (main / place).parent, main / place):
            script = f"cat {main / place}; echo evil >{main / place}"
            _, log = linked.run("sh", "-c", script, readable=(str(folder),), writable=(str(folder),))
            assert (main / place).read_text() == "hidden\n"
            assert "hidden" not in log.splitlines() or place == ".git/info/exclude"


def test_a_link_in_the_worktree_shows_nothing_of_what_it_leads_to(tmp_path: Path, home: Path) -> None:
    (home / "vault" / "bin").mkdir(parents=True)
    (home / "vault" / "lib").mkdir()
    (home / "vault" / "bin" / "tool").write_text("#!/bin/sh\ncat $(dirname $(readlink -f $0))/../lib/secret\n")
    (home / "vault" / "bin" / "tool").chmod(0o755)
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "PATH": "/usr/bin:/bin"})
    (steps.worktree / "bin").symlink_to(home / "vault" / "bin")
    ended, _ = steps.run("./bin/tool")
    assert ended.ending is Ending.NOT_STARTED


def test_a_worktree_behind_a_link_is_seen_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    steps = Steps(tmp_path, "bubblewrap", worktree=tmp_path / "name" / "worktree")
    assert (
        steps.output("sh", "-c", f"echo x >{tmp_path}/name/worktree/file; cat {tmp_path}/real/worktree/file") == "x\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read these files anyway")
def test_what_only_root_can_read_is_hidden_when_aop_runs_as_root(steps: Steps) -> None:
    assert Path("/etc/shadow").read_bytes()
    assert steps.output("sh", "-c", "cat /etc/shadow; ls -A /etc/ssl/private 2>/dev/null || true") == ""


@pytest.mark.hostile("G30")
def test_private_folders_have_a_limit(steps: Steps) -> None:
    script = "stat -f -c '%b %S' /tmp ~ /var/tmp /dev/shm"
    limits = msgspec.structs.replace(NO_LIMITS, tmp_bytes=1 << 20)
    log = steps.output("sh", "-c", script, limits=limits)
    assert [int(blocks) * int(size) for blocks, size in map(str.split, log.splitlines())] == [1 << 20] * 4


# --- the rest of the machine ---------------------------------------------------------------------


@pytest.mark.hostile("G17")
def test_there_is_no_network(steps: Steps) -> None:
    script = """
import errno, socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        socket.socket(socket.AF_INET, kind).connect(("192.0.2.1", 53))
    except OSError as error:
        print(errno.errorcode[error.errno])
print(socket.if_nameindex())
"""
    assert steps.output("python3", "-c", script) == "ENETUNREACH\nENETUNREACH\n[(1, 'lo')]\n"


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[int, str, Path]]:
    """A port, an abstract name and a path on which somebody on this machine listens."""
    name, path = uuid.uuid4().hex, tmp_path / "agent.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as file,
    ):
        abstract.bind(f"\0{name}")
        file.bind(str(path))
        abstract.listen()
        file.listen()
        yield port.getsockname()[1], name, path


CONNECT = """
import socket, sys
port, name, path = sys.argv[1:]
for family, address in (
    (socket.AF_INET, ("127.0.0.1", int(port))), (socket.AF_UNIX, chr(0) + name), (socket.AF_UNIX, path)
):
    try:
        socket.socket(family).connect(address)
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.hostile("G18", "G19")
def test_nobody_who_listens_on_this_machine_can_be_reached(steps: Steps, listening: tuple[int, str, Path]) -> None:
    log = steps.output("python3", "-c", CONNECT, *map(str, listening))
    assert log.split() == ["ConnectionRefusedError", "ConnectionRefusedError", "FileNotFoundError"]


def test_the_network_of_the_host_is_there_where_the_policy_says_so(
    steps: Steps, listening: tuple[int, str, Path]
) -> None:
    log = steps.output("python3", "-c", CONNECT, *map(str, listening), network="host")
    assert log.split() == ["connected", "connected", "FileNotFoundError"]
    assert steps.output("cat", "/etc/resolv.conf", network="host") == Path("/etc/resolv.conf").read_text()


@pytest.mark.hostile("G23")
def test_no_other_process_is_seen(steps: Steps) -> None:
    pids = steps.output("sh", "-c", "for folder in /proc/[0-9]*; do echo ${folder#/proc/}; done").split()
    assert pids == ["1", "2"]


@pytest.mark.hostile("G14")
@pytest.mark.req("AOP-270")
def test_no_process_in_the_sandbox_holds_a_variable_that_was_not_allowed(tmp_path: Path) -> None:
    steps = Steps(tmp_path, "bubblewrap", environ={"CLOUD_TOKEN": "very-secret"})
    log = steps.output("sh", "-c", "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
    assert "very-secret" not in log
    assert "\nCI=true\n" in log


@pytest.mark.hostile("G21", "G50")
def test_a_step_has_no_rights_and_cannot_get_any(steps: Steps) -> None:
    fields = dict(line.split(":\t") for line in steps.output("cat", "/proc/self/status").splitlines())
    assert {name: fields[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")} == {
        **dict.fromkeys(("CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16),
        "NoNewPrivs": "1",
    }
    ended, _ = steps.run("unshare", "--user", "true")
    assert ended.exit_code != 0
    assert "nosuid" in steps.output("sh", "-c", f"grep ' {steps.worktree} ' /proc/self/mounts")


@pytest.mark.hostile("G46")
def test_every_step_sees_the_same_machine_and_user(steps: Steps) -> None:
    assert steps.output("sh", "-c", "hostname; id -u; id -g; id -un; getent hosts aop >/dev/null && echo known") == (
        "aop\n1000\n1000\naop\nknown\n"
    )


@pytest.mark.hostile("G22")
def test_a_step_has_no_terminal(steps: Steps) -> None:
    fields = steps.output("cat", "/proc/self/stat").rpartition(")")[2].split()
    session, terminal = fields[3], fields[4]
    assert (session, terminal) == ("1", "0")


@pytest.mark.hostile("G26")
def test_a_step_ends_with_the_process_that_runs_it(steps: Steps) -> None:
    unique = f"600.{uuid.uuid4().int % 10**12}"
    os.mkfifo(steps.worktree / "started")
    script = f"""
import os
from pathlib import Path
from tests.adapters.processes.steps import Steps
Steps(Path({str(steps.folder)!r}), "bubblewrap").run("sh", "-c", "echo x >started; sleep {unique}")
"""
    runner = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        assert (steps.worktree / "started").read_text() == "x\n"
        assert len(processes_with(unique)) > 1
    finally:
        runner.send_signal(signal.SIGKILL)
        runner.wait(300)
    until(lambda: processes_with(unique) == [])


def test_variables_of_a_step_do_not_reach_bubblewrap_itself(steps: Steps) -> None:
    log = steps.output("/bin/true", env=(("LD_PRELOAD", "./planted.so"),))
    assert log.count("planted.so") == 1


def test_the_values_of_variables_do_not_stand_on_the_command_line() -> None:
    bubblewrap = Bubblewrap(program="/usr/bin/bwrap", options=frozenset())
    with InheritedDescriptors() as handed:
        argv = bubblewrap.command(["true"], {}, env={"A": "very-secret"}, cwd="/", network="none", handed=handed)
        assert argv == ["/usr/bin/bwrap", "--args", str(handed.descriptors[-1]), "--", "true"]
        assert b"--setenv\0A\0very-secret\0" in os.read(handed.descriptors[-1], 4096)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else")
def test_the_sandbox_works_for_a_user_without_rights(steps: Steps) -> None:
    bubblewrap = steps.processes._sandbox("require")
    assert isinstance(bubblewrap, Bubblewrap)
    with InheritedDescriptors() as handed:
        argv = bubblewrap.command(
            ["/bin/sh", "-c", "id -u; (echo x >/new) 2>/dev/null || echo shut in"],
            system_view("/home/aop", "none"),
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            network="none",
            handed=handed,
        )
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *argv]
        fds = handed.descriptors
        ended = subprocess.run(as_nobody, check=False, pass_fds=fds, capture_output=True, text=True, timeout=300)
    if "Permission denied" in ended.stderr:
        pytest.skip("this user cannot read the bubblewrap program")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("1000\nshut in\n", "", 0)


# --- ordinary gates ------------------------------------------------------------------------------


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


@needs("python3")
def test_python_unit_tests_run(steps: Steps) -> None:
    (steps.worktree / "test_sum.py").write_text(
        "import unittest, sqlite3, ssl, tempfile, multiprocessing\n"
        "class Sum(unittest.TestCase):\n"
        "    def test_sum(self):\n"
        "        with tempfile.TemporaryDirectory(), multiprocessing.Pool(2) as pool:\n"
        "            self.assertEqual(pool.map(abs, [-1, -2]), [1, 2])\n"
    )
    assert steps.output("python3", "-m", "unittest", "-q").endswith("OK\n")


@needs("python3")
def test_a_virtual_environment_in_the_worktree_runs(steps: Steps) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", steps.worktree / ".venv"], check=True)
    script = "import sys, json; print(sys.prefix)"
    assert steps.output(".venv/bin/python", "-c", script) == f"{steps.worktree}/.venv\n"


def test_a_virtual_environment_on_the_path_runs_with_what_it_stands_on(tmp_path: Path, home: Path) -> None:
    base = home / "interpreters" / "base"
    (base / "bin").mkdir(parents=True)
    (base / "lib").mkdir()
    (base / "bin" / "python").write_text('#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../lib/answer"\n')
    (base / "bin" / "python").chmod(0o755)
    (base / "lib" / "answer").write_text("42\n")
    (home / "project" / ".git").mkdir(parents=True)
    (home / "project" / "private.txt").write_text("secret")
    environment = home / "project" / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    (environment / "bin" / "python").symlink_to(base / "bin" / "python")
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "PATH": f"{environment}/bin:/usr/bin:/bin"})
    assert steps.output("python") == "42\n"
    assert steps.output("sh", "-c", "ls -A ~ ~/project ~/interpreters").split() == [
        *(f"{home}:", "interpreters", "project"),
        *(f"{home}/interpreters:", "base"),
        *(f"{home}/project:", ".venv"),
    ]


def test_programs_that_the_path_links_to_are_found_without_opening_the_home(tmp_path: Path, home: Path) -> None:
    for folder in ("bin", "scripts", "app/bin", "app/lib", "versions/1/bin", "versions/1/lib"):
        (home / folder).mkdir(parents=True)
    for name in ("bin/own", "scripts/alone", "app/bin/app", "versions/1/bin/tool"):
        (home / name).write_text("#!/bin/sh\necho $0\n")
        (home / name).chmod(0o755)
    (home / "scripts" / "diary").write_text("secret")
    (home / "bin" / "alone").symlink_to(home / "scripts" / "alone")
    (home / "bin" / "app").symlink_to("../app/bin/app")
    (home / "versions" / "current").symlink_to("1")
    path = f"{home}/bin:{home}/versions/current/bin:/usr/bin:/bin"
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "PATH": path})
    assert steps.output("sh", "-c", "own; alone; app; tool; ls -A ~ ~/scripts ~/app").split() == [
        *(f"{home}/bin/own", f"{home}/bin/alone", f"{home}/bin/app", f"{home}/versions/current/bin/tool"),
        *(f"{home}:", "app", "bin", "scripts", "versions"),
        *(f"{home}/app:", "bin", "lib"),
        *(f"{home}/scripts:", "alone"),
    ]


def test_a_toolchain_that_a_variable_names_is_seen(tmp_path: Path, home: Path) -> None:
    (home / "jdk" / "lib").mkdir(parents=True)
    (home / "jdk" / "release").write_text("21\n")
    steps = Steps(tmp_path, "bubblewrap", environ={"HOME": str(home), "JAVA_HOME": str(home / "jdk")})
    assert steps.output("sh", "-c", "cat $JAVA_HOME/release", env_allowlist=("JAVA_HOME",)) == "21\n"
    assert steps.output("sh", "-c", f"cat $JAVA_HOME/release; ls {home}", env=(("JAVA_HOME", str(home / "jdk")),)) == (
        "21\njdk\n"
    )
    assert steps.output("ls", "-A", str(home), env=(("JAVA_HOME", str(home)),)) == ""


@needs("node")
def test_node_runs(steps: Steps) -> None:
    assert steps.output("node", "-e", "console.log(require('os').hostname())") == "aop\n"


@pytest.mark.slow
@needs("java", "javac")
def test_java_compiles_and_runs(steps: Steps) -> None:
    (steps.worktree / "Hello.java").write_text(
        "class Hello { public static void main(String[] a) throws Exception {"
        ' System.out.println(java.net.InetAddress.getLocalHost() + System.getProperty("user.home")); } }\n'
    )
    steps.output("javac", "Hello.java")
    assert steps.output("java", "-Xshare:auto", "Hello").startswith("aop/127.0.0.1")


@pytest.mark.slow
@needs("cargo", "cc")
def test_cargo_builds_and_runs(steps: Steps) -> None:
    (steps.worktree / "src").mkdir()
    (steps.worktree / "Cargo.toml").write_text('[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n')
    (steps.worktree / "src" / "main.rs").write_text('fn main() { println!("hello"); }\n')
    assert steps.output("cargo", "run", "--offline", "--quiet") == "hello\n"


@pytest.mark.slow
@needs("go")
def test_go_builds_and_runs(steps: Steps) -> None:
    (steps.worktree / "go.mod").write_text("module example.org/hello\n")
    (steps.worktree / "main.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    assert steps.output("go", "run", ".") == "hello\n"


# --- the proof -----------------------------------------------------------------------------------


def fake(folder: Path, script: str) -> str:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n[ $1 = --help ] && exit 0\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_a_program_that_shuts_nothing_in_is_not_taken_for_a_sandbox(tmp_path: Path) -> None:
    program = fake(tmp_path, 'shift 3; exec "$@"')
    unproven = prove([program], tmp_path / "scratch")
    assert isinstance(unproven, FailedProof)
    assert unproven.reason.startswith(f"`{program}` runs, and does not shut a process in: worktree, readable, ")


def test_a_program_that_only_pretends_is_not_taken_for_a_sandbox(tmp_path: Path) -> None:
    program = fake(tmp_path, "echo worktree; echo lo; readlink /proc/self/ns/pid")
    assert prove([program], tmp_path / "scratch") == FailedProof(
        f"`{program}` runs, and does not shut a process in: worktree, lo"
    )


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    program = fake(tmp_path, "echo No permissions to create namespace >&2; exit 1")
    assert prove([program], tmp_path / "scratch") == FailedProof(
        f"`{program}` ended with 1: No permissions to create namespace"
    )
    assert not (tmp_path / "scratch").exists()


def test_what_is_no_program_is_passed_over(tmp_path: Path) -> None:
    unproven = prove([str(tmp_path)], tmp_path / "scratch")
    assert isinstance(unproven, FailedProof)
    assert unproven.reason.startswith(f"`{tmp_path}` does not run: ")


def test_the_next_program_is_tried_when_one_does_not_hold(tmp_path: Path, steps: Steps) -> None:
    real = steps.processes._sandbox("require")
    assert isinstance(real, Bubblewrap)
    assert prove([fake(tmp_path, "exit 1"), real.program], tmp_path / "scratch") == real


def test_the_level_is_proved_once(tmp_path: Path) -> None:
    fake(tmp_path, f"echo tried >>{tmp_path}/calls; exit 1")
    environ = {"PATH": str(tmp_path)}
    processes = LocalProcesses(environ, str, private_root=tmp_path / "private", rungs=("bubblewrap",))
    assert len({processes.sandbox_level("auto") for _ in range(3)}) == 1
    assert (tmp_path / "calls").read_text() == "tried\n"
