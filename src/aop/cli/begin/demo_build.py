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
from aop.brains.ports import FINISH
from aop.brains.prices import Prices
from aop.cli.forge.builds.build import tool_refusals
from aop.cli.shell.repository import call_tool
from aop.core.errors import Json, ReplayDiverged
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
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
BUILD = f"{PROJECT}-b1"
STORE = "labels/store.py"
TESTS: tuple[str, Mapping[str, Json]] = ("run_command", {"command": "python3 -m unittest discover -s labels -t ."})

PLAN_0 = "=== PLAN ===\n1. Write the store and its tests\n2. Write the application and its test\n=== END PLAN ==="
PLAN_1 = "=== PLAN ===\n1. Make and list labels over HTTP, and say how to run it\n=== END PLAN ==="
EVIDENCE_0 = ("labels/store.py, labels/tests/test_store.py", "labels/app.py, labels/tests/test_app.py")
EVIDENCE_1 = ("labels/app.py, labels/tests/test_app.py", "README.md (no test: it is prose)")
FINDING: Mapping[str, Json] = {
    "file_path": STORE,
    "line_number": 15,
    "severity": "MAJOR",
    "description": "The table takes a text of any length.",
    "recommendation": "Let the table refuse a text that the printer cannot print.",
    "contract": "schema",
    "section": "labels",
}


def rehearsed_crew(data: Path) -> Mapping[Role, ModelBrain]:
    """Return a team that builds Shelf Labels.

    Its coder asks once, and signs off once before its tests pass; its auditor has a finding, which its fixer repairs.
    """
    return {
        role: ModelBrain(RehearsedModel(scripts), Prices({}), SystemClock(), Redactor(), CallLimits())
        for role, scripts in {
            Role.SCOUT: [_scouted(0, "schema"), _scouted(1, "physics")],
            Role.CODER: [_coded_first(data / "phase_0"), _coded_second(data / "phase_1")],
            # The script whose cue comes first is played: an auditor that had findings looks again.
            Role.AUDITOR: [
                _audited("your earlier findings"),
                _audited("Audit phase 0", FINDING),
                _audited("Audit phase 1"),
            ],
            Role.FIXER: [_fixed()],
        }.items()
    }


def _scouted(phase: int, contract: str) -> Script:
    report: Mapping[str, Json] = {
        "directory_tree": "parcels/ is an application of its own; labels/ is new",
        "directives": ["boundaries /layers/0: only the store speaks SQL"],
    }
    fetched = (_window(phase), _contract("manifesto"), _contract(contract))
    return Script(cue=f"Look at phase {phase}", replies=(RehearsedReply(fetched), _result(report)))


def _coded_first(files: Path) -> Script:
    asked = ("forge_ask_clarification", {"question": QUESTION, "options": [ANSWER, "Refuse it"]})
    replies = (
        RehearsedReply((_window(0), _contract("stack"), _contract("schema"))),
        RehearsedReply((asked,), PLAN_0),
        RehearsedReply(_writes(files)),
        RehearsedReply((), f"{_done(1, 2)}\n{_sign_off(0, EVIDENCE_0)}"),
        RehearsedReply((_edit('{recipient}"', '{recipient}"[:WIDTH]'), TESTS)),
        RehearsedReply((), _sign_off(0, EVIDENCE_0)),
    )
    return Script(cue="Begin phase 0", replies=replies)


def _coded_second(files: Path) -> Script:
    replies = (
        RehearsedReply((_window(1), _contract("stack"), _contract("physics"))),
        RehearsedReply(_writes(files), PLAN_1),
        RehearsedReply((TESTS,)),
        RehearsedReply((), f"{_done(1)}\n{_sign_off(1, EVIDENCE_1)}"),
    )
    return Script(cue="Begin phase 1", replies=replies)


def _audited(cue: str, *findings: Mapping[str, Json]) -> Script:
    verdict = "REQUEST_CHANGES" if findings else "APPROVE"
    report: Mapping[str, Json] = {
        "verdict": verdict,
        "summary": "Read against the contracts.",
        "findings": [dict(each) for each in findings],
    }
    return Script(cue=cue, replies=(RehearsedReply((_contract("boundaries"), _contract("schema"))), _result(report)))


def _fixed() -> Script:
    read = ("forge_get_build_contracts", {"contract_types": ["schema"], "section": "labels"})
    replies = (
        RehearsedReply((read,)),
        RehearsedReply((_edit("text TEXT NOT NULL", "text TEXT NOT NULL CHECK (length(text) <= 24)"),)),
        _result({"fix_summary": "1: repaired."}),
    )
    return Script(cue=f"Build `{BUILD}`", replies=replies)


def _result(value: Mapping[str, Json]) -> RehearsedReply:
    return RehearsedReply(((FINISH, value),))


def _window(phase: int) -> tuple[str, Mapping[str, Json]]:
    return "forge_get_phase_window", {"phase_number": phase}


def _contract(name: str) -> tuple[str, Mapping[str, Json]]:
    return "forge_get_project_contract", {"contract_type": name}


def _edit(old: str, new: str) -> tuple[str, Mapping[str, Json]]:
    return "edit_file", {"path": STORE, "edits": [{"old": old, "new": new}]}


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
        before, crew = heads.head(default), rehearsed_crew(self._data)
        self._accept_old_code()
        self._say(f"a rehearsed team builds {PROJECT}; aop forge build {PROJECT} --crew team")
        with _refusals(), ThreadPoolExecutor(1) as pool:
            work = ProjectBuild(self._app, self._app.person, PROJECT, "team", self._report)
            answered = pool.submit(self._answer, work.build_id)
            work.run(crew.__getitem__, lambda: None)
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
