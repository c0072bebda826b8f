"""Managed repositories to measure in: of any size, with any number of features present."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aop.core.ids import FeatureId, OperationId
from aop.core.roles import Role
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.features.lifecycle import relist
from aop.kernel.gateway.tokens import TokenOrder
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.collisions import claims_of
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import JournalEntry, Operation, Transaction
from aop.wiring.build import App, Settings, build

GATES = """\
version: 1
profiles:
  default:
    modes:
      fast: [{name: nothing, cmd: ["true"]}]
      full: [{name: flood, cmd: [sh, -c, "yes 'a line as a test runner prints it, 64 bytes long, again' | head -c %d"]}]
      merge: [{name: nothing, cmd: ["true"]}]
"""
POLICY = "version: 1\nexecution: {sandbox: %s}\n"


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Run git as a user would."""
    words = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words)
    return subprocess.run(words, cwd=folder, input=stdin, capture_output=True, check=True, env=_ENVIRONMENT).stdout


_ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Scene:
    """One managed repository, with its gateway in this process."""

    def __init__(self, root: Path, *, files: int, flood_bytes: int = 0, database: str = "") -> None:
        self.root = root
        contents = {"agentic/orchestrator/gates.yaml": GATES % flood_bytes}
        contents["agentic/orchestrator/policy.yaml"] = POLICY % "off"
        contents |= {source_file(number): "first\nversion 0\nlast\n" for number in range(files - len(contents))}
        make_repository(root, contents)
        environ = {**os.environ, "AOP_DATABASE": database}
        self.app: App = build(root, Settings.from_env(environ))
        self._fillers = 0

    def close(self) -> None:
        """Let go of the database."""
        self.app.close()

    def call(self, tool: str, *, role: Role = Role.ORCHESTRATOR, **arguments: Any) -> Any:
        """Call a tool that must succeed; return its data."""
        answer = self.app.gateway.call(msgspec.structs.replace(self.app.person, role=role), tool, arguments)
        if not answer.ok:
            raise RuntimeError(f"{tool} was refused: {answer.error}")
        return answer.data

    def token(self) -> str:
        """Return a token of the orchestrator, for every feature."""
        return self.app.tokens.issue(TokenOrder(role=Role.ORCHESTRATOR), by=self.app.person.actor).text

    def set_sandbox(self, sandbox: str) -> None:
        """Set `execution.sandbox` on the base branch."""
        self.set_policy(POLICY % sandbox)

    def let_all_patch(self) -> None:
        """Let features be patched without plans, so that they can meet."""
        self.set_policy("version: 1\npatch_policy: {enforce_plan: false, enforce_allowed_areas: false}\n")

    def set_policy(self, text: str) -> None:
        """Set the whole policy on the base branch."""
        (self.root / "agentic/orchestrator/policy.yaml").write_text(text)
        git(self.root, "commit", "-q", "-a", "-m", "Another policy")

    def begin(self, name: str, path: str) -> None:
        """Make a feature with a plan that changes one file."""
        self.call("feature.init", feature_id=name)
        self.call("plan.submit", feature_id=name, plan_json=plan_for(name, path))

    def fill(self, count: int) -> None:
        """Place features until there are so many: their rows, their branches, and their worktrees without files."""
        names = [f"filler_{number:04}" for number in range(self._fillers, count)]
        for name in names:
            git(self.root, "worktree", "add", "-q", "--no-checkout", "-b", name, f".worktrees/{name}", "main")
        self.place(names, planned=True)
        self._fillers += len(names)

    def place(self, names: Sequence[str], *, planned: bool) -> None:
        """Place features in the record alone, row for row like one that went through the gateway."""
        model = FeatureId("model_planned" if planned else "model_new")
        with self.app.record.read() as view:
            known = view.get(FeatureState, model)
        if known is None and planned:
            self.begin(model, f"filled/{model}.txt")
        elif known is None:
            self.call("feature.init", feature_id=model)
        rows = _Rows(self.app, model)
        with self.app.record.write() as tx:
            for name in names:
                rows.copy(tx, FeatureId(name))


class _Rows:
    """Everything that the record holds of one feature."""

    def __init__(self, app: App, feature_id: FeatureId) -> None:
        self._policy = app.gateway.kernel.config().policy
        with app.record.read() as view:
            state = view.get(FeatureState, feature_id)
            self._plan = view.get(AcceptedPlan, feature_id)
            self._entries: tuple[JournalEntry, ...] = tuple(view.journal(feature_id=feature_id))
            found = [view.operation(entry.event.operation_id) for entry in self._entries]
        if state is None:
            raise RuntimeError(f"There is no feature {feature_id}.")
        self._state = state
        self._operations: list[Operation] = [operation for operation in found if operation is not None]

    def copy(self, tx: Transaction, name: FeatureId) -> None:
        """Put the same rows under another name."""
        state = msgspec.structs.replace(
            self._state, feature_id=name, branch=name, worktree_path=f".worktrees/{name}", version=1
        )
        for version in range(1, self._state.version + 1):
            tx.put(msgspec.structs.replace(state, version=version), name)
        relist(tx, name, state.status, now=state.last_updated)
        for entry in self._entries:
            event = entry.event
            own = _operation_of(name, event.operation_id)
            tx.append(msgspec.structs.replace(event, feature_id=name, operation_id=own))
        for operation in self._operations:
            own = _operation_of(name, operation.operation_id)
            tx.enter_operation(msgspec.structs.replace(operation, operation_id=own))
            tx.finish_operation(own, operation.answer or {})
        if self._plan is not None:
            self._copy_plan(tx, name, self._plan)

    def _copy_plan(self, tx: Transaction, name: FeatureId, accepted: AcceptedPlan) -> None:
        files = msgspec.structs.replace(accepted.plan.files, modify=(f"filled/{name}.txt",))
        plan = msgspec.structs.replace(accepted.plan, feature_id=name, files=files)
        tx.put(msgspec.structs.replace(accepted, plan=plan), name)
        tx.set_claims(
            name, claims_of(name, plan, bounds_of(plan, self._policy).entries, guarded_areas_of(self._policy))
        )


def source_file(number: int) -> str:
    """Return the path of a file of the repository: a hundred in a folder."""
    return f"src/part_{number // 100:03}/file_{number % 100:02}.txt"


def plan_for(name: str, path: str, *, version: int = 1) -> Mapping[str, Any]:
    """Return a plan that changes one file of the repository."""
    plan = {
        "feature_id": name,
        "plan_version": version,
        "summary": "Change one file",
        "allowed_areas": ["src", "filled"],
        "forbidden_areas": [],
        "base_ref": "main",
        "files": {"create": [], "modify": [path], "delete": []},
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["The file says so"],
        "gate_profile": "default",
    }
    return plan if version == 1 else {**plan, "revision_of": version - 1, "revision_reason": "Measured"}


def patch_of(path: str, *, old: int) -> str:
    """Return a patch that takes a file of the repository from one version to the next."""
    return f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n first\n-version {old}\n+version {old + 1}\n last\n"


def _operation_of(name: FeatureId, operation_id: OperationId) -> OperationId:
    return OperationId(f"{name}:{operation_id}")


def make_repository(root: Path, contents: Mapping[str, str]) -> None:
    """Make a repository with one commit on `main`, packed as a clone would be."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "fast-import", "--quiet", stdin="".join(_import_lines(contents)).encode())
    git(root, "reset", "-q", "--hard")


def _import_lines(contents: Mapping[str, str]) -> Iterable[str]:
    yield "commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 5\nBegin\n"
    for path, text in sorted(contents.items()):
        yield f"M 100644 inline {path}\ndata {len(text)}\n{text}\n"
