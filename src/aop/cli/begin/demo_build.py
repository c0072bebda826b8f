"""The last act of `aop demo forge`: a mini build whose tests really run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aop.adapters.machine.clock import SystemClock
from aop.adapters.models.rehearsed import Calls, RehearsedModel, RehearsedReply, Script
from aop.adapters.projects.sample_repository import sample_files
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Prices
from aop.cli.forge.builds.build import tool_refusals
from aop.cli.shell.repository import call_tool
from aop.core.errors import Json, ReplayDiverged
from aop.core.redaction.redactor import Redactor
from aop.forge.broker.fetches import fetches_of_build
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.run.build_parts import BuildHeld
from aop.kernel.ports.handed_in import Report
from aop.wiring.build import App
from aop.wiring.forge.builds import ProjectBuild

PROJECT = "shelf-labels"
QUESTION = "Is a name that does not fit on a label cut, or refused?"
ANSWER = "Cut it"
LONGEST_WAIT_SECONDS = 30.0
STORE = "labels/store.py"
TESTS: tuple[str, Mapping[str, Json]] = ("run_tests", {"command": "python3 -m unittest discover -s labels -t ."})

PLAN_0 = "=== PLAN ===\n1. Write the store and its tests\n2. Write the application and its test\n=== END PLAN ==="
PLAN_1 = "=== PLAN ===\n1. Make and list labels over HTTP, and say how to run it\n=== END PLAN ==="
EVIDENCE_0 = ("labels/store.py, labels/tests/test_store.py", "labels/app.py, labels/tests/test_app.py")
EVIDENCE_1 = ("labels/app.py, labels/tests/test_app.py", "README.md (no test: it is prose)")
FIX: Mapping[str, Json] = {
    "path": STORE,
    "edits": [{"old": 'return f"{shelf} {recipient}"', "new": 'return f"{shelf} {recipient}"[:WIDTH]'}],
}


def rehearsed_builder(data: Path) -> ModelBrain:
    """Return a brain that builds Shelf Labels: it asks once, and signs off once before its tests pass."""
    asked = ("forge_ask_clarification", {"question": QUESTION, "options": [ANSWER, "Refuse it"]})
    replies = (
        RehearsedReply((_window(0), _contract("blueprint"), _contract("stack"), _contract("schema"))),
        RehearsedReply((asked,), PLAN_0),
        RehearsedReply(_writes(data / "phase_0")),
        RehearsedReply((), f"{_done(1, 2)}\n{_sign_off(0, EVIDENCE_0)}"),
        RehearsedReply((("edit_file", FIX), TESTS)),
        RehearsedReply((), _sign_off(0, EVIDENCE_0)),
        RehearsedReply((_window(1), _contract("physics"))),
        RehearsedReply(_writes(data / "phase_1"), PLAN_1),
        RehearsedReply((TESTS,), _done(1)),
        RehearsedReply((), _sign_off(1, EVIDENCE_1)),
    )
    script = Script(cue="# Project: Shelf Labels", replies=replies)
    return ModelBrain(RehearsedModel([script]), Prices({}), SystemClock(), Redactor(), CallLimits())


def _window(phase: int) -> tuple[str, Mapping[str, Json]]:
    return "forge_get_phase_window", {"phase_number": phase}


def _contract(name: str) -> tuple[str, Mapping[str, Json]]:
    return "forge_get_contract", {"name": name}


def _writes(folder: Path) -> Calls:
    files = sample_files(folder)
    return [("write_file", {"path": path, "content": content.decode()}) for path, content in files.items()]


def _done(*tasks: int) -> str:
    return "\n".join(f"=== TASK DONE: {task} ===" for task in tasks)


def _sign_off(phase: int, evidence: Sequence[str]) -> str:
    listed = "\n".join(f"- {number}: {files}" for number, files in enumerate(evidence, start=1))
    return (
        f"=== PHASE SIGN-OFF: PASS ===\nPhase: {phase}\nDeliverables:\n{listed}\nTests: PASS\n"
        "=== END PHASE SIGN-OFF ==="
    )


class DemoBuild:
    """Builds a project whose contracts are there, and reads back from record and git what came of it."""

    def __init__(self, app: App, data: Path, say: Report) -> None:
        self._app = app
        self._data = data
        self._say = say

    def play(self) -> dict[str, Any]:
        """Build the project, answer its question, and return the build, its seal and the default branch."""
        default = self._app.gateway.kernel.config().policy.worktree.base_branch
        heads = self._app.repository.branches
        before, builder = heads.head(default), rehearsed_builder(self._data)
        self._accept_old_code()
        self._say(f"a rehearsed model builds {PROJECT}; aop forge build {PROJECT}")
        with _refusals(), ThreadPoolExecutor(1) as pool:
            work = ProjectBuild(self._app, self._app.person, PROJECT, "solo", self._report)
            answered = pool.submit(self._answer, work.build_id)
            work.run(lambda _role: builder, lambda: None)
            questions = [answered.result()]
        checked = self._call("forge.build_verify_seal", build_id=work.build_id)
        self._say(f"{work.build_id}: sealed {checked['seal']['verdict']}; aop forge verify {work.build_id}")
        return {
            "build": self._build(work.cycle(), questions, checked["seal"]["audit"]),
            "seal": _seal(checked),
            "default_branch": {"before": before, "after": heads.head(default)},
        }

    def _accept_old_code(self) -> None:
        """Accept the routes and tables of the application that is there already: they are none of this project."""
        found = self._call("forge.check", project_id=PROJECT)["clauses"]
        for clause in (each["clause"] for each in found if each["clause"].endswith(".undeclared")):
            self._call("forge.accept", project_id=PROJECT, clause=clause)
            self._say(f"{PROJECT}: accepts {clause} of the old code; aop forge check {PROJECT} --accept {clause}")

    def _answer(self, build_id: str) -> dict[str, str]:
        """Wait for the question of the build, and answer it as a person would."""
        clock = self._app.gateway.kernel.clock
        until = clock.boot_seconds() + LONGEST_WAIT_SECONDS
        while clock.boot_seconds() < until:
            for each in self._call("inbox.list")["questions"]:
                number = str(each["question_id"])
                self._say(f"{build_id}: asks: {QUESTION} The demo answers for you: aop answer {number} '{ANSWER}'")
                self._call("inbox.answer", feature_id=build_id, question_id=number, answer=ANSWER)
                return {"question_id": number, "answer": ANSWER}
            clock.pause(0.02)
        raise ReplayDiverged(f"The build `{build_id}` did not ask its question.")

    def _build(self, cycle: BuildCycle, questions: list[dict[str, str]], audit: Mapping[str, str]) -> dict[str, Any]:
        commits = self._call("forge_list_branch_commits", build_cycle_id=cycle.build_id)["commits"]
        errors = self._call("forge.errors_list", build_id=cycle.build_id)["errors"]
        return {
            "build_id": cycle.build_id,
            "branch": cycle.branch,
            "status": cycle.status,
            "phases": [
                {
                    "number": done.phase,
                    "name": done.name,
                    "sign_off": {"tree": done.tree, "gate_run_id": done.gate_run_id, "tests": done.tests},
                    "refused": [
                        reason for each in cycle.refused if each.phase == done.phase for reason in each.reasons
                    ],
                }
                for done in cycle.sign_offs
            ],
            "commits": [{name: each[name] for name in ("sha", "author", "subject", "build_cycle")} for each in commits],
            "questions": questions,
            "errors": [
                {
                    "fingerprint": each["fingerprint"],
                    "count": each["occurrence_count"],
                    "resolved": each["resolved"],
                    "method": each["resolution_method"],
                }
                for each in errors
            ],
            "audit": dict(audit),
            "contract_reads": self._contract_reads(cycle.build_id),
            "compactions": cycle.compactions,
            "cost_usd": cycle.cost_usd,
        }

    def _contract_reads(self, build_id: str) -> dict[str, list[str]]:
        """Return the contracts that each role read, each once, in their order."""
        reads: dict[str, list[str]] = {}
        with self._app.record.read() as view:
            for entry in fetches_of_build(view, build_id):
                role, name = (str(entry.event.payload[key]) for key in ("role", "contract_type"))
                if name not in reads.setdefault(role, []):
                    reads[role].append(name)
        return reads

    def _report(self, line: str) -> None:
        """Pass on what is said of phases, without the steps of gates and audit."""
        if line.startswith("phase "):
            self._say(f"{PROJECT}: {line}")

    def _call(self, tool: str, **arguments: Json) -> Any:
        return call_tool(self._app, tool, arguments).data


@contextmanager
def _refusals() -> Iterator[None]:
    """Pass on what ends the build. Raises: CallRefused, ReplayDiverged."""
    try:
        with tool_refusals():
            yield
    except BuildHeld as held:
        raise ReplayDiverged(f"The build of `{PROJECT}` stopped on this machine: {held}") from held


def _seal(checked: Mapping[str, Any]) -> dict[str, Any]:
    seal = checked["seal"]
    return {
        "verdict": seal["verdict"],
        "score": seal["score"],
        "dimensions": {name: each["score"] for name, each in seal["dimensions"].items()},
        "valid": checked["valid"],
    }
