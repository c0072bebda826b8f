"""A process that has imported AOP already and forks for each command: half of a short command's time is its imports.

A command is still a process with a working directory, environment, streams and exit code like any other. Tests whose
point is how a process begins (its imports, its hash seed, its encodings) start a fresh one. Coverage begins with the
fork: the tests themselves import the same modules.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from coverage import process_startup

MOST_CHARACTERS = 30_000
"""The most of a request: it is one message on a socket, where a character may take six bytes."""

HEAVY = frozenset(("brain", "forge", "gated", "mcp", "resume", "retry", "run", "serve", "ticket", "tools"))
"""Commands that need the engine, the protocol, the models or all schemas; others fork sooner from a smaller process."""

LIBRARIES = (
    "anthropic.resources.beta",
    "anyio._backends._asyncio",
    "openai.resources.responses",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.openai",
    "splintr",
)
"""What they import late: with a model, that is some 3,000 modules."""

READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that a Python reads before any code of ours runs."""

_START = dict(os.environ)


def can_run(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Tell whether a command may run in a fork."""
    return (
        not any(name.startswith(READ_AT_START) and env[name] != _START.get(name) for name in env)
        and sum(map(len, (*words, *env, *env.values()))) < MOST_CHARACTERS
    )


def run(words: Sequence[str], *, cwd: Path, stdin: str, env: Mapping[str, str], seconds: float) -> tuple[int, str, str]:
    """Run `aop` in a fork of the prepared process; return its exit code, its output and its errors."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        with open(files[0], "w", encoding="utf-8", closefd=False) as written:
            written.write(stdin)
        os.lseek(files[0], 0, os.SEEK_SET)
        command = _Command(words, cwd, env, files)
        try:
            code = command.wait(seconds)
        except subprocess.TimeoutExpired:
            command.kill()
            raise
        return code, _contents(files[1]), _contents(files[2])
    finally:
        for file in files:
            os.close(file)


def words_that_start(words: Sequence[str]) -> list[str]:
    """Return the words of a small program that runs `aop` in a fork, on the streams that it is started with itself."""
    return [sys.executable, "-I", "-S", "-c", _STARTER, _address(heavy=_is_heavy(words)), *words]


_STARTER = """\
import json, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect(sys.argv[1])
request = {"words": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
answers = asked.makefile()
pid = int(answers.readline())
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
# The command has the streams; a copy of ours would keep a pipe open after its end.
nothing = os.open(os.devnull, os.O_RDWR)
for file in (0, 1, 2):
    os.dup2(nothing, file)
sys.exit(int(answers.readline()))
"""


class _Command:
    """One command in a fork."""

    def __init__(self, words: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[int]) -> None:
        self.words = list(words)
        self.returncode: int | None = None
        request = json.dumps({"words": self.words, "cwd": str(cwd), "env": dict(env)}).encode()
        self._asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._asked.connect(_address(heavy=_is_heavy(words)))
            socket.send_fds(self._asked, [request], files)
            self.pid = int(self._asked.recv(100))
        except BaseException:
            self._asked.close()
            raise

    def wait(self, timeout: float) -> int:
        """Return the exit code, or minus the signal."""
        if self.returncode is None:
            self._asked.settimeout(timeout)
            try:
                self.returncode = int(self._asked.recv(100))
            except TimeoutError as problem:
                raise subprocess.TimeoutExpired(self.words, timeout) from problem
            self._asked.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code of a command that has ended, otherwise None."""
        has_ended = self.returncode is not None or select.select([self._asked], [], [], 0)[0]
        return self.wait(60) if has_ended else None

    def send_signal(self, number: int) -> None:
        """Send a signal, if the command has not ended."""
        # Its number may belong to another process as soon as its end is told.
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait(300)


class Started(_Command):
    """A command that goes on beside its test; what it prints is in a pipe, as with `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        # A file takes any number of messages while nobody reads them.
        self._errors = os.memfd_create("stderr")
        ours, theirs = os.pipe()
        self.stdout = open(ours, encoding="utf-8")  # noqa: SIM115 - `communicate` closes it
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            super().__init__(words, cwd, env, (nothing, theirs, self._errors))
        finally:
            os.close(nothing)
            os.close(theirs)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for the end; return what was printed since, and every message."""
        self.wait(timeout)
        if self.stdout.closed:
            return "", ""
        with self.stdout, open(self._errors, encoding="utf-8") as messages:
            messages.seek(0)
            return self.stdout.read(), messages.read()


def _contents(file: int) -> str:
    with open(file, encoding="utf-8", closefd=False) as opened:
        opened.seek(0)
        return opened.read()


def _is_heavy(words: Sequence[str]) -> bool:
    return not HEAVY.isdisjoint(words[:1])


@cache
def _address(*, heavy: bool) -> str:
    """Start the process that forks, which ends when the tests do; return the address where it takes commands."""
    folder = tempfile.mkdtemp(prefix="aop-tests-")
    address = os.path.join(folder, "commands")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as commands:
        commands.bind(address)
        commands.listen(100)
        environment = {name: value for name, value in _START.items() if not name.startswith("COVERAGE_PROCESS")}
        words = [sys.executable, __file__, str(commands.fileno()), *["heavy"] * heavy]
        process = subprocess.Popen(words, pass_fds=[commands.fileno()], env=environment, stdin=subprocess.PIPE)

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address


def _serve(commands: socket.socket, *, heavy: bool) -> int:
    """Fork for each command, and tell its sender the process id and the exit code; end with standard input."""
    main = _import_aop(heavy=heavy)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(commands, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fd == 0:
                return 0
            if key.data is None:
                _fork(commands, waiting, main)
            else:
                waiting.unregister(key.fd)
                os.close(key.fd)
                _report_end(*key.data)


def _fork(commands: socket.socket, waiting: selectors.BaseSelector, main: Callable[[], int]) -> None:
    sender = commands.accept()[0]
    body, files, _flags, _address = socket.recv_fds(sender, MOST_CHARACTERS * 8, 3)
    if (pid := os.fork()) == 0:
        sender.close()
        commands.close()
        _let_go(waiting)
        _become(json.loads(body), files)
        # Does nothing unless the environment asks for it.
        process_startup()
        _end(main)
    for file in files:
        os.close(file)
    _tell(sender, pid)
    waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, sender))


def _import_aop(*, heavy: bool) -> Callable[[], int]:
    import aop.cli.shell.parser  # noqa: F401 - imported for the commands
    from aop.cli.main import MODULES, main
    from aop.wiring.build import make_ready_for_threads

    make_ready_for_threads()
    if heavy:
        _import_servers()
    for module in MODULES.values():
        import_module(module)
    gc.freeze()
    return main


def _import_servers() -> None:
    for name in LIBRARIES:
        import_module(name)
    import aop.adapters.models.remote_model
    import aop.adapters.storage.engine.dbos
    import aop.mcpserver.http
    import aop.mcpserver.stdio
    import aop.web.forge.forge_routes
    import aop.web.pages.page_routes  # noqa: F401 - imported for the commands
    from aop.kernel.contracts.schemas import tool_schemas
    from aop.wiring.catalogue import CATALOGUE

    for tool in CATALOGUE.values():
        tool_schemas(tool)


def _end(main: Callable[[], int]) -> NoReturn:
    """End as a command does, without taking apart what it shares with the others."""
    code: object = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - the interpreter's part, which ends here
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter calls when it ends
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 0)


def _let_go(waiting: selectors.BaseSelector) -> None:
    """Close what belongs to the other commands."""
    for each in waiting.get_map().values():
        if each.data is not None:
            os.close(each.fd)
            each.data[1].close()
    waiting.close()


def _report_end(pid: int, sender: socket.socket) -> None:
    _tell(sender, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sender.close()


def _tell(sender: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        sender.send(f"{number}\n".encode())


def _become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Take on the working directory, environment, arguments and streams of a command."""
    for target, file in enumerate(files[:3]):
        os.dup2(file, target)
    for file in files:
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv[1:] = request["words"]
    # The streams of a process live as long as it does: SIM115 does not apply to these three.
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", 0), encoding="utf-8", errors="backslashreplace", write_through=True)  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1])), heavy="heavy" in sys.argv))
