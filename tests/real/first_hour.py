"""The first hour of a developer with AOP: from the wheel to a merged change in a project that others wrote."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parents[2]
SECONDS = 280.0

AGENT = '''\
"""agent.py SCRIPT: plans and makes the edits that a script names; after a person's request it makes the next ones."""
import difflib, json, pathlib, sys

given = json.load(sys.stdin)
script = json.loads(pathlib.Path(sys.argv[1]).read_text())
asked = [result for result in given["last_tool_results"] if result["tool"] == "feature.request_changes"]


def texts(edits):
    for path, old, new in edits:
        file = pathlib.Path(path)
        before = file.read_text() if file.exists() else ""
        yield path, before, before.replace(old, new, 1) if old else before + new


def diff(edits):
    for path, before, after in texts(edits):
        lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
        yield from difflib.unified_diff(*lines, f"a/{path}" if before else "/dev/null", f"b/{path}")


if given["role"] == "planner":
    plan = {"feature_id": given["feature_id"], "plan_version": 1, "base_ref": "main",
            "forbidden_areas": [], "contracts": {"openapi": "none", "events": "none", "db": "none"},
            "gate_profile": "default", **script["plan"]}
    print(json.dumps({"type": "PLAN_SUBMISSION", "plan": plan}))
else:
    edits = script["on_request"] if asked else script["edits"]
    print(json.dumps({"type": "PATCH", "unified_diff": "".join(diff(edits))}))
'''


class Work(Struct, frozen=True, kw_only=True):
    """One change of a project: the sentence a person types, what the agent does, and what the person asks for then."""

    sentence: str
    plan: Mapping[str, Any]
    edits: Sequence[tuple[str, str, str]]
    """Path, old text (empty: at the end of the file), new text."""
    request: tuple[str, ...]
    on_request: Sequence[tuple[str, str, str]]


class Terminal:
    """A person's shell in a project: what is typed and what is printed, with what differs each time made equal."""

    def __init__(self, project: Path, env: Mapping[str, str]) -> None:
        self.project = project
        self.env = dict(env)
        self.lines: list[str] = []

    def types(self, *words: str) -> None:
        """Run a command, and keep it with what it printed, as a terminal shows it."""
        printed = self._run(words, errors=subprocess.STDOUT)
        self.lines += [f"$ {_as_typed(words)}", *_steady(printed, self.project).splitlines()]

    def asks(self, *words: str) -> str:
        """Run a command of the test, and return its result."""
        return self._run(words, errors=subprocess.DEVNULL)

    def _run(self, words: Sequence[str], *, errors: int) -> str:
        done = subprocess.run(
            words,
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout


def _as_typed(words: Sequence[str]) -> str:
    return " ".join(json.dumps(word) if re.search(r"[^\w./:=@+-]", word) else word for word in words)


def _steady(text: str, project: Path) -> str:
    """Return a text without what differs from run to run: places, times, hashes, process ids."""
    text = text.replace(str(project.parent), "~")
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("features: "))
    text = re.sub(r"\b\d+:[0-9a-f]{64}\b", "22:0123abc", text)
    text = re.sub(r"\b[0-9a-f]{40}\b", lambda found: found[0][:12], text)
    text = re.sub(r"\bsandbox (bubblewrap|landlock|none)\b", "sandbox bubblewrap", text)
    text = re.sub(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}\b", "0123abc", text)
    # An id may be made of digits alone: one of twelve is no other number, and `git log` begins its lines with one.
    text = re.sub(r"\b\d{12}\b|^[0-9a-f]{7}(?= )", "0123abc", text, flags=re.MULTILINE)
    text = re.sub(r"\bgate-\d+-[0-9a-f]+", "gate-1", text)
    text = re.sub(r"^ *\d+\.\d+ s", "   1.23 s", text, flags=re.MULTILINE)
    # With the blanks behind it: the width of a column follows from the times in it.
    text = re.sub(r"\b(just now|\d+(\.\d+)? (s|ms|min) ago) *", "5 s ago  ", text)
    text = re.sub(r"\b\d+(\.\d+)? (s|ms|min)\b(?! ago)", "1.2 s", text)
    text = re.sub(r"CHANGED +", "CHANGED  ", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "2026-01-01T12:00:00Z", text)
    return re.sub(r"\b(pid|process) \d+", r"\1 4711", text)


def installed_aop(folder: Path) -> Path:
    """Build the wheel and install it into an empty environment; return the program."""
    python = f"{sys.base_prefix}/bin/python3"
    run_quietly(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel"), cwd=ROOT)
    (wheel,) = (folder / "wheel").iterdir()
    run_quietly(python, "-m", "venv", str(folder / "tool"))
    run_quietly(str(folder / "tool/bin/python"), "-m", "pip", "install", "-q", str(wheel))
    return folder / "tool/bin/aop"


def run_quietly(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"


def environment(folder: Path, aop: Path, work: Work) -> dict[str, str]:
    """Return a person's environment: an ordinary PATH with `aop` linked into it, a home, a git identity, an agent."""
    home = folder / "home"
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/aop").symlink_to(aop)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    script = {name: getattr(work, name) for name in ("plan", "edits", "on_request")}
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "agent.py").write_text(AGENT)
    return {
        "PATH": f"{home}/.local/bin:{os.environ['PATH']}",
        "HOME": str(home),
        "USER": "ada",
        "LANG": "C.UTF-8",
        "AOP_AGENT_PROVIDER": "custom",
        "AOP_CUSTOM_AGENT": f"python3 {folder / 'agent.py'} {folder / 'script.json'}",
    }


def console_lines(page: str) -> list[str]:
    """Return the lines of a page's console blocks."""
    return [line for block in _BLOCK.findall(page) for line in block.splitlines()]


def with_console(page: str, lines: Sequence[str]) -> str:
    """Return a page whose console blocks show what their commands print now; the text between them stays."""
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith("$ "):
            entries.append([])
        entries[-1].append(line)
    left = iter(entries)

    def block(found: re.Match[str]) -> str:
        commands = sum(line.startswith("$ ") for line in found[1].splitlines())
        shown = [line for _ in range(commands) for line in next(left, [])]
        return "```console\n" + "\n".join(shown) + "\n```\n"

    return _BLOCK.sub(block, page)


_BLOCK = re.compile(r"```console\n(.*?)\n```\n", re.DOTALL)
