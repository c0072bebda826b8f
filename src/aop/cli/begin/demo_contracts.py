"""`aop demo forge`: contracts for an idea and for an old repository, and a build."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aop.adapters.machine.clock import SystemClock
from aop.adapters.models.rehearsed import RehearsedModel, RehearsedReply, Script
from aop.adapters.projects.sample_repository import SampleRepository, sample_environment, sample_files
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Prices
from aop.cli.begin.demo_build import PROJECT, DemoBuild
from aop.cli.forge.builds.build import tool_refusals
from aop.cli.shell.repository import call_tool
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Fault, Json
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.core.text.yaml import parse_yaml
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType, file_name
from aop.forge.generation.flows.flow_tools import SUBMIT
from aop.kernel.gateway.principals import Principal
from aop.wiring.build import App, Settings, build, make_ready_for_threads
from aop.wiring.forge.generation import ContractGeneration

DATA = Path(__file__).with_name("demo_forge")
IDEA, OLD, SMALL = "Seed Library", "Parcel Desk", "Shelf Labels"
FLOWS: Mapping[str, str] = {"seed-library": "greenfield", "parcel-desk": "scout"}
SCRIPTS: Mapping[str, str] = {**FLOWS, PROJECT: "mini"}
"""The folder of each project's contracts; the last project is small, and is built."""
EDITED = ContractType.MANIFESTO
EDIT = ("under one minute", "under two minutes")
"""An edit after the build was pinned, which the build must not see."""

READ_EDITED: tuple[str, Mapping[str, Json]] = ("forge_get_project_contract", {"contract_type": EDITED.value})

READS: Mapping[Role, tuple[tuple[str, Mapping[str, Json]], ...]] = {
    Role.SCOUT: (
        ("forge_get_project_contract", {"contract_type": "blueprint", "section": "Architecture"}),
        ("forge_get_project_contract", {"contract_type": "stack", "section": "Backend"}),
        ("forge_get_project_contract", {"contract_type": "boundaries", "section": "/layers/1"}),
    ),
    Role.CODER: (
        ("forge_get_project_contract", {"contract_type": "schema", "section": "loans"}),
        ("forge_get_project_contract", {"contract_type": "physics", "section": "/paths/~1api~1loans"}),
        ("forge_get_project_contract", {"contract_type": "boundaries", "section": "/layers/1"}),
        ("forge_get_phase_window", {"phase_number": 3}),
    ),
    Role.AUDITOR: (
        ("forge_get_project_contract", {"contract_type": "boundaries", "section": "/layers"}),
        ("forge_get_project_contract", {"contract_type": "manifesto", "section": "Principles"}),
    ),
    Role.FIXER: (
        ("forge_get_build_contracts", {"contract_types": ["boundaries"], "section": "/layers/1"}),
        ("forge_get_build_contracts", {"contract_types": ["schema"], "section": "loans"}),
    ),
}
"""The parts that each role of a build asks for in its work on one phase."""


def play(arguments: argparse.Namespace, terminal: Terminal, folder: Path) -> int:
    """Play the demo in a folder; report what the record shows afterwards."""
    began = time.monotonic()
    report = _Story(folder / "parcels", terminal, began).play()
    report["seconds"] = round(time.monotonic() - began, 2)
    if not arguments.keep:
        terminal.say("Everything was removed. Keep it with: aop demo forge --keep")
    return terminal.result(report, _report_text(report, keep=arguments.keep))


class _Story:
    """The acts of the demo, in order."""

    def __init__(self, root: Path, terminal: Terminal, began: float) -> None:
        self._root = root
        self._terminal = terminal
        self._began = began
        self._environ = sample_environment(os.environ)

    def play(self) -> dict[str, Any]:
        """Take an idea and a repository to contracts, pin them, read them, check them."""
        sample = SampleRepository(self._root, self._environ)
        sample.make(sample_files(DATA / "scout" / "repository"))
        self._say(f"made an old repository: {self._root}")
        make_ready_for_threads()
        with build(self._root, Settings.from_env(self._environ)) as app:
            scan = self._begin(app)
            self._generate(app)
            pinned = self._pin_and_edit(app)
            self._read(app, str(pinned["build_id"]))
            check = self._check(app)
            return {
                "projects": [self._project(app, project, flow) for project, flow in FLOWS.items()],
                "scan": scan,
                "pinned": pinned,
                "tokens": self._tokens(app, str(pinned["build_id"])),
                "check": check,
                **DemoBuild(app, DATA / "mini", self._say).play(),
                "repository": str(self._root),
            }

    def _begin(self, app: App) -> dict[str, Any]:
        """Answer the questions about the idea, scan the repository and plan its renovation."""
        for name, mode in ((IDEA, "full"), (OLD, "full"), (SMALL, "mini")):
            self._call(app, "forge.project_new", name=name, mode=mode)
        for project, flow in (("seed-library", "greenfield"), (PROJECT, "mini")):
            answers: Json = parse_yaml((DATA / flow / "answers.yaml").read_bytes()).value
            self._call(app, "forge.answer", project_id=project, answers=answers)
            self._say(f"{project}: the questions about an idea are answered; aop forge ask {project}")
        scan = self._call(app, "forge.scan", project_id="parcel-desk")
        plan = self._call(app, "forge.plan", project_id="parcel-desk")
        tasks = len(plan["migration_recommendations"])
        self._say(
            f"parcel-desk: scanned {count(scan['files'], 'file')}, grade {scan['health_grade']},"
            f" {count(tasks, 'task')} in the renovation plan; aop forge scan, aop forge plan"
        )
        return {**{name: scan[name] for name in ("run_id", "head_sha", "files", "health_grade")}, "tasks": tasks}

    def _generate(self, app: App) -> None:
        """Let the rehearsed model write the contracts of all projects at once."""

        def generate(project: str, flow: str) -> None:
            generation = ContractGeneration(app, app.person, project, lambda line: None)
            stored = generation.generate(rehearsed_brain(flow))
            turns = sum(used["turns"] for used in stored["usage"].values())
            self._say(f"{project}: 9 contracts in {count(turns, 'turn')}, batch {stored['sha256'][:12]}")

        self._say("a rehearsed model writes all contracts at once; aop forge generate PROJECT")
        with ThreadPoolExecutor(len(SCRIPTS)) as pool:
            begun = [pool.submit(generate, project, flow) for project, flow in SCRIPTS.items()]
        with tool_refusals():
            for each in begun:
                each.result()

    def _pin_and_edit(self, app: App) -> dict[str, Any]:
        """Pin a build, edit a contract, and read it as the build and as a person."""
        build_facts = self._call(app, "forge.pin", project_id="seed-library")
        self._say(f"{build_facts['build_id']}: pinned batch {build_facts['batch']}; aop forge pin seed-library")
        before = self._call(app, "forge.contract_show", project_id="seed-library", contract_type=EDITED)
        edited = self._call(
            app,
            "forge.contract_edit",
            project_id="seed-library",
            contract_type=EDITED,
            content=before["content"].replace(*EDIT),
            expected_version=before["version"],
        )
        served = self._read_as(app, Role.CODER, build_facts["build_id"], READ_EDITED)
        if EDIT[1] in served["content"] or served["version"] != before["version"]:
            raise Fault("The pinned build sees an edit.")
        self._say(
            f"seed-library: {EDITED} is edited to version {edited['version']}; the build reads {served['version']}"
        )
        return {
            **{name: build_facts[name] for name in ("build_id", "batch", "sha256")},
            "contract_type": EDITED.value,
            "live_version": edited["version"],
            "served_version": served["version"],
            "source": served["source"],
        }

    def _read(self, app: App, build_id: str) -> None:
        """Fetch for each role the parts that its work on one phase takes."""
        for role, reads in READS.items():
            for read in reads:
                self._read_as(app, role, build_id, read)
        self._say("scout, coder, auditor and fixer fetch the sections they need, and nothing is pushed to them")

    def _read_as(self, app: App, role: Role, build_id: str, read: tuple[str, Mapping[str, Json]]) -> Mapping[str, Any]:
        who = Principal(role=role, actor=f"{role}:demo", project="seed-library", build=build_id)
        answer = app.gateway.call(who, read[0], dict(read[1]))
        if answer.error is not None:
            raise CallRefused(answer.error, answer.evidence)
        data: Mapping[str, Any] = answer.data
        return data

    def _check(self, app: App) -> dict[str, Any]:
        """Test the old code by its new contracts."""
        found = self._call(app, "forge.check", project_id="parcel-desk")
        violated = [
            {"clause": each["clause"], "file": proof["file"], "line": proof["line"]}
            for each in found["clauses"]
            if each["verdict"] == "violated"
            for proof in each["proofs"]
        ]
        places = ", ".join(f"{each['file']}:{each['line']}" for each in violated)
        self._say(
            f"parcel-desk: {count(found['holds'], 'clause')} hold, violated at {places}; aop forge check parcel-desk"
        )
        return {"holds": found["holds"], "violated": violated, "unknown": found["unknown"]}

    def _project(self, app: App, project: str, flow: str) -> dict[str, Any]:
        facts = self._call(app, "forge.project_show", project_id=project)
        tokenizer = app.gateway.kernel.tokenizer
        if facts["flow"] != flow or tokenizer is None:
            raise Fault(f"The project `{project}` is not what the demo made.")
        contracts = []
        for each in facts["contracts"]:
            shown = self._call(app, "forge.contract_show", project_id=project, contract_type=each["contract_type"])
            row = {name: each[name] for name in ("contract_type", "version", "sha256")}
            contracts.append({**row, "tokens": tokenizer.count(shown["content"])})
        return {
            "project_id": project,
            "flow": flow,
            "status": facts["status"],
            "contracts": contracts,
            "consistency": facts["contradictions"],
        }

    def _tokens(self, app: App, build_id: str) -> dict[str, Any]:
        """Count what the roles of the build were sent, and what both generations sent."""
        counted = self._call(app, "forge.tokens", target=build_id)
        loops = [self._call(app, "forge.tokens", target=project)["generation"] for project in FLOWS]
        return {
            **{name: counted[name] for name in ("tokenizer", "push", "fixed_context")},
            "roles": {
                role.value: {name: counted["roles"][role.value][name] for name in ("brief", "tools", "contracts")}
                for role in READS
            },
            "generation": {
                way: {name: sum(each[way][name] for each in loops) for name in names}
                for way, names in (("tool_use", ("requests", "sent", "cached")), ("snowball", ("requests", "sent")))
            },
        }

    def _call(self, app: App, tool: str, **arguments: Json) -> Any:
        return call_tool(app, tool, arguments).data

    def _say(self, line: str) -> None:
        self._terminal.say(f"{time.monotonic() - self._began:6.2f} s  {line}")


def rehearsed_brain(flow: str) -> ModelBrain:
    """Return a brain that asks for the parts that the script names, and hands in the contracts of the demo."""
    script: Any = parse_yaml((DATA / flow / "script.yaml").read_bytes()).value
    scripts = [
        Script(
            cue=f": `{each}`,",
            replies=(
                RehearsedReply(tuple((name, given) for row in script[each] for name, given in row.items())),
                RehearsedReply(((SUBMIT, {"content": _contract(flow, each)}),)),
            ),
        )
        for each in CONTRACT_TYPES
    ]
    return ModelBrain(RehearsedModel(scripts), Prices({}), SystemClock(), Redactor(), CallLimits())


def _contract(flow: str, contract_type: ContractType) -> str:
    return (DATA / flow / "contracts" / file_name(contract_type)).read_text("utf-8")


def _report_text(report: Mapping[str, Any], *, keep: bool) -> str:
    tokens, pinned, root = report["tokens"], report["pinned"], shlex.quote(report["repository"])
    sent = tokens["generation"]
    roles = ", ".join(f"{role} {each['contracts']:,}" for role, each in tokens["roles"].items())
    around = [
        f"  aop forge show seed-library --repo {root}",
        f"  aop forge show parcel-desk physics --repo {root}",
        f"  aop forge check parcel-desk --repo {root}",
        f"  aop forge tokens {pinned['build_id']} --repo {root}",
        *(
            f"  aop forge {verb} {report['build']['build_id']} --repo {root}"
            for verb in ("status", "log", "errors", "audit")
        ),
        f"  git -C {root} log --stat {report['build']['branch']}",
    ]
    return "\n".join(
        [
            f"\nDone in {report['seconds']} s. Three projects have nine contracts each. {pinned['build_id']} reads"
            f" version {pinned['served_version']} of {pinned['contract_type']}; newest: {pinned['live_version']}.",
            f"Tokens of contracts, counted with {tokens['tokenizer']}: {roles}; pushing all nine: {tokens['push']:,}.",
            f"Generation sent {sent['tool_use']['sent']:,} tokens by tools; by snowball {sent['snowball']['sent']:,}.",
            *_build_lines(report),
            "Where to look:" if keep else "What to try next:",
            *(around if keep else ["  aop demo forge --keep    the same, and keep everything"]),
            "  aop forge new NAME    your own idea or repository",
        ]
    )


def _build_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Tell what became of the build: its branch, its seal, and the sign-offs that did not count."""
    built, seal, default = report["build"], report["seal"], report["default_branch"]
    tests, commits = built["phases"][-1]["sign_off"]["tests"], len(built["commits"])
    yield (
        f"{built['build_id']} was built in {count(len(built['phases']), 'phase')} with {count(tests, 'test')} and"
        f" {count(commits, 'commit')} on {built['branch']}: {seal['verdict']}, {seal['score']:g} of 100. The default"
        f" branch is still {default['after'][:12]}."
    )
    for phase in built["phases"]:
        for reason in phase["refused"]:
            yield f"Phase {phase['number']} was said to be done once before it was. {reason}"
    resolved = sorted(each["method"] for each in built["errors"] if each["resolved"])
    yield f"{count(len(resolved), 'error')} were met and resolved: {', '.join(resolved)}."
