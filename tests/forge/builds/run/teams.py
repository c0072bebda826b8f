"""Teams that build Notes for tests: what scout, coder, auditor and fixer reply, and the build that they work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.testing.scripted_model import ScriptedModel
from aop.wiring.forge.builds import ProjectBuild
from tests.forge.builds.notes_app import PHASE_0, PHASE_1
from tests.forge.builds.run.builders import (
    EVIDENCE_0,
    EVIDENCE_1,
    PLAN_0,
    PLAN_1,
    PROJECT,
    Calls,
    Said,
    brain_of,
    done,
    scripted,
    signing,
    writes,
)
from tests.world import World

SCOUT, CODER, AUDITOR, FIXER = Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER
TESTS: Calls = (("run_command", {"command": "python3 -m unittest discover -s tests -t ."}),)


def contract(name: str, **arguments: Any) -> Calls:
    """Return the call that reads a contract of the project."""
    return (("forge_get_project_contract", {"contract_type": name, **arguments}),)


def handed_in(value: Mapping[str, Any]) -> Said:
    """Return the reply that hands in a result."""
    return Said(calls=(("hand_in_result", value),))


def finding(path: str = "notes/store.py", line: int | None = 7, **fields: Any) -> dict[str, Any]:
    """Return a finding of an auditor."""
    return {
        "file_path": path,
        "line_number": line,
        "severity": "MAJOR",
        "description": "The store prints.",
        "recommendation": "Return the text.",
        "contract": "boundaries",
        "section": "/layers/1",
        **fields,
    }


def audit(*findings: Mapping[str, Any]) -> Said:
    """Return the reply of an auditor with these findings."""
    verdict = "REQUEST_CHANGES" if findings else "APPROVE"
    return handed_in({"verdict": verdict, "summary": "I read it.", "findings": [*findings]})


REPORT = {"directory_tree": "LICENSE", "directives": ["boundaries /layers/1: a store returns"]}
SCOUTED = (
    Said(calls=(("forge_get_phase_window", {"phase_number": 0}), *contract("manifesto"), *contract("stack"))),
    handed_in(REPORT),
)
CODED_0 = (
    Said(calls=(("forge_get_phase_window", {"phase_number": 0}), *contract("stack"))),
    Said(PLAN_0, writes(PHASE_0)),
    Said(done(1, 2), TESTS),
    Said(signing(0, EVIDENCE_0)),
)
CODED_1 = (
    Said(calls=(("forge_get_phase_window", {"phase_number": 1}), *contract("physics"))),
    Said(PLAN_1, writes(PHASE_1)),
    Said(f"{done(1)}\n{signing(1, EVIDENCE_1)}"),
)
READ_BOUNDARIES = Said(calls=contract("boundaries", section="/layers/1"))
AUDITED = (READ_BOUNDARIES, audit())
EDIT: Calls = (
    (
        "edit_file",
        {"path": "notes/store.py", "edits": [{"old": "self, path: str", "new": "self, path: str = ':memory:'"}]},
    ),
)
OTHER_EDIT: Calls = (("edit_file", {"path": "notes/app.py", "edits": [{"old": "json", "new": "simplejson"}]}),)
FIXED = (
    Said(calls=(("forge_get_build_contracts", {"contract_types": ["boundaries"], "section": "/layers/1"}),)),
    Said(calls=(*OTHER_EDIT, *EDIT)),
    handed_in({"fix_summary": "1: repaired."}),
)

Turn = tuple[Role, Sequence[Said]]
HONEST_TEAM: Sequence[Turn] = (
    (SCOUT, SCOUTED),
    (CODER, CODED_0),
    (AUDITOR, (READ_BOUNDARIES, audit(finding(), finding(line=900, severity="MINOR"), finding("LICENSE", 1)))),
    (FIXER, FIXED),
    (AUDITOR, AUDITED),
    (SCOUT, (Said("I know it."), Said(calls=contract("stack")), handed_in(REPORT))),
    (CODER, CODED_1),
    (AUDITOR, AUDITED),
)
"""A team whose auditor has findings in the first phase, one on a file that the phase did not change; its fixer repairs
them, and tries to change another file. The second scout reads no contract at first."""


class Team:
    """The scripted model of each role."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.models: dict[Role, ScriptedModel] = {
            role: scripted(*(said for each, replies in turns if each is role for said in replies))
            for role in (SCOUT, CODER, AUDITOR, FIXER)
        }

    def asked(self, role: Role) -> int:
        """Return how often a role was asked."""
        return len(self.models[role].asked)

    def build(self, world: World, ready: Callable[[], None] = lambda: None, *, by_host: bool = False) -> BuildCycle:
        """Build Notes, or go on with it, as `aop forge build --crew team` does; return its cycle."""
        brains = {role: brain_of(model) for role, model in self.models.items()}
        work = ProjectBuild(world.app, world.app.person, PROJECT, "team", lambda _line: None)
        work.run(brains.__getitem__, ready, by_host=by_host)
        return work.cycle()
