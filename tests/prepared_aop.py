"""A process that has imported AOP already and forks for each command: half of a short command's time is its imports.

A command is still a process with a working directory, environment, streams and exit code like any other. Tests whose
point is how a process begins (its imports, its hash seed, its encodings, its coverage) start a fresh one.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

MOST_CHARACTERS = 30_000
"""The most of a request: it is one message on a socket, where a character may take six bytes."""

HEAVY = frozenset(("brain", "gated", "mcp", "resume", "retry", "run", "serve"))
"""Commands that import the engine, the protocol or the models; the others fork sooner from a process without them."""

READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that a Python reads before any code of ours runs."""

_START = dict(os.environ)


def can_run(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Tell whether a command may run in a fork."""
    return (
        not any(name.startswith("COVERAGE_PROCESS") for name in env)
        and not any(name.startswith(READ_AT_START) and env[name] != _START.get(name) for name in env)
        and sum(map(len, (*words, *env, *env.values()))) < MOST_CHARACTERS
    )


def run(words: Sequence[str], *, cwd: Path, stdin: str, env: Mapping[str, str], seconds: float) -> tuple[int, str, str]:
    """Run `aop` in a fork of the prepared process; return its exit code, its output and its errors."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    with open(files[0], "w", encoding="utf-8", closefd=False) as written:
        written.write(stdin)
    os.lseek(files[0], 0, os.SEEK_SET)
    ours, theirs = socket.socketpair()
    try:
        request = json.dumps({"words": words, "cwd": str(cwd), "env": dict(env)}).encode()
        with theirs:
            socket.send_fds(_prepared(heavy=not HEAVY.isdisjoint(words[:1])), [request], [*files, theirs.fileno()])
        ours.settimeout(seconds)
        with ours.makefile() as answers:
            pid = int(answers.readline())
            try:
                code = int(answers.readline())
            except TimeoutError as problem:
                os.kill(pid, 9)
                raise subprocess.TimeoutExpired(list(words), seconds) from problem
        return code, _contents(files[1]), _contents(files[2])
    finally:
        ours.close()
        for file in files:
            os.close(file)


def _contents(file: int) -> str:
    with open(file, encoding="utf-8", closefd=False) as opened:
        opened.seek(0)
        return opened.read()


@cache
def _prepared(*, heavy: bool) -> socket.socket:
    """Start the process that forks; it ends when the tests do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {name: value for name, value in _START.items() if not name.startswith("COVERAGE_PROCESS")}
        command = [sys.executable, __file__, str(theirs.fileno()), *["heavy"] * heavy]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket, *, heavy: bool) -> int:
    """Fork for each request, and tell its sender the process id and the exit code."""
    main = _import_aop(heavy=heavy)
    waiting = selectors.DefaultSelector()
    waiting.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                waiting.unregister(key.fd)
                os.close(key.fd)
                _report_end(*key.data)
                continue
            body, files, _flags, _address = socket.recv_fds(requests, MOST_CHARACTERS * 8, 4)
            if not body:
                return 0
            if (pid := os.fork()) == 0:
                _let_go(waiting)
                _become(json.loads(body), files)
                _end(main)
            for file in files[:3]:
                os.close(file)
            os.write(files[3], f"{pid}\n".encode())
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[3]))


def _import_aop(*, heavy: bool) -> Callable[[], int]:
    import aop.cli.shell.parser
    import aop.wiring.build
    from aop.cli.main import MODULES, main

    if heavy:
        import aop.adapters.models.remote_model
        import aop.adapters.storage.engine.dbos
        import aop.mcpserver.tool_server  # noqa: F401 - imported for the commands
    for module in MODULES.values():
        import_module(module)
    gc.freeze()
    return main


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
        os.close(each.fd)
        if each.data is not None:
            os.close(each.data[1])
    waiting.close()


def _report_end(pid: int, sender: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(sender, "w", encoding="ascii") as answers:
        answers.write(f"{code}\n")


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
