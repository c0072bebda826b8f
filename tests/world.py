"""A real managed repository for tests: real git, real files, the real gateway; and `aop` as a real process."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.principals import Principal
from aop.wiring.build import App, Settings, build
from aop.wiring.models import model_reviewer
from tests import prepared_aop

PASSING_GATES = """\
version: 1
profiles:
  default:
    modes:
      fast:
        - {name: check, cmd: [sh, check.sh]}
      full:
        - {name: check, cmd: [sh, check.sh]}
      merge:
        - {name: check, cmd: [sh, check.sh]}
"""

FILES: Mapping[str, str] = {
    "README.md": "A small repository.\n",
    "check.sh": "test ! -e src/broken.txt\n",
    "src/a.txt": "one\ntwo\nthree\n",
    "src/b.txt": "alpha\nbeta\n",
    "agentic/orchestrator/gates.yaml": PASSING_GATES,
}


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git as a user would, and return what it printed."""
    done = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(words)}: {done.stderr}")
    return done.stdout


def make_repository(root: Path, files: Mapping[str, str] = FILES) -> Path:
    """Make a repository with one commit on `main`."""
    root.mkdir(parents=True, exist_ok=True)
    if files is not FILES or any(root.iterdir()):
        return _begun(root, files)
    # Two thousand tests begin with this one: a copy takes a third of what making it takes.
    shutil.copytree(_first_copy(), root, symlinks=True, dirs_exist_ok=True)
    git(root, "update-index", "--refresh")
    return root


@cache
def _first_copy() -> Path:
    folder = tempfile.mkdtemp(prefix="aop-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(folder, "repo")
    root.mkdir()
    _begun(root, FILES)
    for sample in (root / ".git/hooks").glob("*.sample"):
        sample.unlink()
    return root


def _begun(root: Path, files: Mapping[str, str]) -> Path:
    git(root, "init", "-q", "-b", "main")
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Begin")
    return root


def plan_for(feature_id: str, **changes: Any) -> dict[str, Any]:
    """Return a plan that is acceptable in `make_repository`, with changes laid over it."""
    plan: dict[str, Any] = {
        "feature_id": feature_id,
        "plan_version": 1,
        "summary": "Change the first file",
        "allowed_areas": ["src"],
        "forbidden_areas": [],
        "base_ref": "main",
        "files": {"create": [], "modify": ["src/a.txt"], "delete": []},
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["The file says so"],
        "gate_profile": "default",
    }
    return {**plan, **changes}


def files(create: tuple[str, ...] = (), modify: tuple[str, ...] = (), delete: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the `files` of a plan."""
    return {"create": list(create), "modify": list(modify), "delete": list(delete)}


PATCH = """\
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""


class World:
    """One managed repository, and everybody who may call its tools."""

    def __init__(self, root: Path, env: Mapping[str, str] | None = None) -> None:
        self.root = root
        settings = Settings.from_env({**os.environ, "USER": "ada", **(env or {})})
        self.app: App = build(root, settings, reviewer=model_reviewer(settings))

    def close(self) -> None:
        self.app.close()

    def call(self, tool: str, *, role: Role = Role.ORCHESTRATOR, operation: str | None = None, **args: Any) -> Envelope:
        """Call a tool as the person at the terminal, in a role."""
        who = msgspec.structs.replace(self.app.person, role=role)
        return self.app.gateway.call(who, tool, args, operation_id=operation)

    def call_as_worker(self, tool: str, role: Role, feature: str, **args: Any) -> Envelope:
        """Call a tool as a worker whose token opens one feature."""
        who = Principal(role=role, actor=f"{role}:{feature}", features=frozenset({FeatureId(feature)}))
        return self.app.gateway.call(who, tool, args)

    def ok(self, tool: str, *, role: Role = Role.ORCHESTRATOR, **args: Any) -> Any:
        """Call a tool that must succeed; return its data."""
        answer = self.call(tool, role=role, **args)
        assert answer.ok, answer.error
        return answer.data

    def refusal(self, tool: str, *, role: Role = Role.ORCHESTRATOR, **args: Any) -> Mapping[str, Any]:
        """Call a tool that must be refused and change nothing; return the error."""
        before = self.fingerprint()
        answer = self.call(tool, role=role, **args)
        assert answer.error is not None, answer.data
        assert self.fingerprint() == before
        return answer.error

    def fingerprint(self) -> dict[str, str]:
        """Return everything that a refused call must leave as it is: refs, checkout, worktrees, record, files."""
        with self.app.record.read() as view:
            seqs = [entry.hash for entry in view.journal()]
        seen = {"journal": seqs[-1] if seqs else "", "refs": git(self.root, "for-each-ref")}
        seen["checkout"] = git(self.root, "status", "--porcelain")
        for path in sorted(self.root.rglob("*")):
            inside = path.relative_to(self.root)
            if inside.parts[0] in (".git", ".aop") or not path.is_file() or path.is_symlink():
                continue
            seen[inside.as_posix()] = path.read_bytes().hex()
        return seen

    # --- a feature's life, one step a method -----------------------------------------------------

    def init(self, feature: str = "one") -> None:
        self.ok("feature.init", feature_id=feature)

    def plan(self, feature: str = "one", **changes: Any) -> None:
        self.init(feature)
        self.ok("plan.submit", feature_id=feature, plan_json=plan_for(feature, **changes))

    def patch(self, feature: str = "one", diff: str = PATCH) -> Any:
        return self.ok("repo.apply_patch", role=Role.BUILDER, feature_id=feature, unified_diff=diff)

    def ready(self, feature: str = "one", diff: str = PATCH, **changes: Any) -> None:
        """Bring a feature to `ready_to_merge`."""
        self.plan(feature, **changes)
        self.patch(feature, diff)
        for mode in ("fast", "full"):
            self.ok("gates.run", feature_id=feature, mode=mode)

    def approval(self, feature: str = "one") -> str:
        """Approve a feature as it is now; return the token."""
        status = self.ok("repo.status", feature_id=feature)
        granted = self.ok("feature.approve", feature_id=feature, tree=status["tree"], base=status["base_head"])
        token: str = granted["token"]
        return token


class Ran(msgspec.Struct, frozen=True):
    """A finished `aop` process."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_aop(
    folder: Path, *words: str, stdin: str = "", env: Mapping[str, str] | None = None, seconds: float = 300.0
) -> Ran:
    """Run `aop` as a process of its own."""
    environment = {**os.environ, "USER": "ada", **(env or {})}
    if prepared_aop.can_run(words, environment):
        return Ran(*prepared_aop.run(words, cwd=folder, stdin=stdin, env=environment, seconds=seconds))
    done = subprocess.run(
        [sys.executable, "-m", "aop.cli.main", *words],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env=environment,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_aop_at_terminal(
    folder: Path, *words: str, types: str, env: Mapping[str, str] | None = None, seconds: float = 300.0
) -> Ran:
    """Run `aop` as a person does who types these lines at a terminal; its messages still go to a pipe."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, types.encode())
        done = subprocess.run(
            [sys.executable, "-m", "aop.cli.main", *words],
            cwd=folder,
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env={**os.environ, "USER": "ada", **(env or {})},
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return Ran(done.returncode, done.stdout, done.stderr)
