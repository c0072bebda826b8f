"""A build in a real repository for tests: its tree is written, verified by real runs, committed and signed off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.ids import CommitId, OperationId, TreeId
from aop.forge.builds.audit.audit import audit_of
from aop.forge.builds.audit.audit_verdicts import AuditCheck
from aop.forge.builds.audit.subject import Claims
from aop.forge.builds.cycle.commits import commit_and_push
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle, PhaseProgress, SignOff
from aop.forge.contracts.types import ContractType
from aop.kernel.config.gates import Mode, Step
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import record_run, run_gates
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.gates.steps import definition_of, profile_named
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool, feature_named
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.ports.git import FileContent, FileMode
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Subject
from aop.wiring.catalogue import CATALOGUE
from tests.forge.builds.notes_app import BASE, NOTES, PHASE_0, PHASE_1
from tests.forge.projects import stored
from tests.world import World, git, make_repository

VERIFY = (
    ("python3", "-m", "compileall", "-q", "notes"),
    ("python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."),
)


class CommitArguments(Arguments, frozen=True, kw_only=True):
    build_id: str
    subject: str


class Committed(Struct, frozen=True, kw_only=True):
    head: str


def _commit(call: Call, arguments: CommitArguments) -> Outcome:
    with call.kernel.record.read() as view:
        cycle, state = (
            the_living_cycle(view, arguments.build_id, call.principal),
            feature_named(view, arguments.build_id),
        )
    return commit_and_push(
        call, cycle, state.tree, arguments.subject, store=lambda _tx, moved: Committed(head=moved.head)
    )


COMMIT = Tool(
    name="forge.test_commit_tree",
    summary="Commit the tree of a build.",
    arguments=CommitArguments,
    output=Committed,
    roles=COORDINATORS,
    run=_commit,
    mutates=True,
    person_only=True,
    resolve=undo_move,
)


def commit_tree(world: World, build_id: str, subject: str = "Finish a task") -> CommitId:
    """Commit the tree of a build on its branch, as the loop does after a task."""
    gateway = Gateway(world.app.gateway.kernel, {**CATALOGUE, COMMIT.name: COMMIT})
    answer = gateway.call(world.app.person, COMMIT.name, {"build_id": build_id, "subject": subject})
    assert answer.ok, answer.error
    return CommitId(answer.data["head"])


class Built:
    """The build `notes-b1`, and what its runner would do with it."""

    def __init__(
        self,
        folder: Path,
        base: Mapping[str, str] = BASE,
        contracts: Mapping[ContractType, str] = NOTES,
    ) -> None:
        self.root = make_repository(folder, base)
        self.world = World(self.root)
        self.world.ok("forge.project_new", name="Notes", mode="mini")
        stored(self.world, "notes", contracts)
        self.build_id: str = self.world.ok("forge.build_begin", project_id="notes", crew="solo")["build_id"]

    @property
    def kernel(self) -> Kernel:
        return self.world.app.gateway.kernel

    def call(self, tool: str = "forge.build_begin") -> Call:
        """Return a call of the person at the terminal, under a new operation id."""
        gateway = self.world.app.gateway
        return Call(
            kernel=gateway.kernel,
            principal=self.world.app.person,
            tool=gateway.tools[tool],
            operation_id=OperationId(gateway.kernel.new_id("op")),
            report=lambda _line: None,
        )

    def cycle(self) -> BuildCycle:
        with self.kernel.record.read() as view:
            found = view.get(BuildCycle, self.build_id)
        assert found is not None
        return found

    def state(self) -> FeatureState:
        with self.kernel.record.read() as view:
            found = view.get(FeatureState, self.build_id)
        assert found is not None
        return found

    def write(self, files: Mapping[str, str | None]) -> TreeId:
        """Change files of the tree, with the events that a judged write leaves."""
        call, before = self.call(), self.state()
        contents: dict[str, FileContent | None] = {
            path: None if text is None else (FileMode.FILE, text.encode()) for path, text in files.items()
        }
        tree = TreeId(self.kernel.git.objects.tree_with(before.tree, contents))
        with self.kernel.record.write() as tx:
            after = store_feature(tx, before, msgspec.structs.replace(before, tree=tree), now=self.kernel.now())
            trees = {"tree": tree, "before": before.tree}
            tx.append(call.event("patch_applied", after.feature_id, **trees, files=len(files)))
        return tree

    def commit(self, subject: str = "Finish a task") -> CommitId:
        return commit_tree(self.world, self.build_id, subject)

    def finish(self) -> None:
        """Build both phases: contracts are read, files written, verified, committed and signed off."""
        for files, tests in ((PHASE_0, 3), (PHASE_1, 4)):
            self.put_event("contract_fetched", build_id=self.build_id, contract_type="blueprint")
            self.write(files)
            run = self.verify()
            self.sign_off(self.commit(), run, tests)

    def change(self, **fields: object) -> None:
        """Change fields of the cycle, as the machine of the loop does."""
        cycle = self.cycle()
        with self.kernel.record.write() as tx:
            tx.put(revise(cycle, **fields), self.build_id)

    def put_event(self, kind: str, **payload: object) -> None:
        event = self.call().event(kind, self.state().feature_id)
        with self.kernel.record.write() as tx:
            tx.append(msgspec.structs.replace(event, payload=payload))

    def verify(self, commands: Sequence[Sequence[str]] = VERIFY) -> GateRun:
        """Run commands on the tree by the gate executor, and record the run."""
        call, state, config = self.call(), self.state(), self.kernel.config()
        steps = tuple(Step(name=f"verify_{at}", cmd=tuple(each)) for at, each in enumerate(commands, start=1))
        profile = profile_named(config.gates, state.gate_profile)
        definition = definition_of(steps, profile, config.policy)
        plan = GatePlan(
            feature_id=state.feature_id,
            profile_name=state.gate_profile,
            profile=profile,
            mode=Mode.FULL,
            steps=steps,
            reports=Reports(),
            subject=Subject(tree=state.tree, base_commit=state.base_commit, definition=definition),
            policy=config.policy,
            config_hash=config.hash,
        )
        commit = self.kernel.git.objects.commit(state.tree, [state.base_commit], "Try", when=self.kernel.clock.now())
        with self.kernel.git.worktrees.scratch(commit) as checkout:
            run = run_gates(call, plan, checkout)
        with self.kernel.record.write() as tx:
            record_run(tx, call, state, state, run)
        return run

    def sign_off(self, commit: CommitId, run: GateRun, tests: int, deliverables: Claims | None = None) -> None:
        """End the current phase, as the machine does after everything was proven."""
        cycle = self.cycle()
        number = cycle.current.number
        done = SignOff(
            phase=number,
            name=cycle.phases[number],
            tree=self.state().tree,
            commit=commit,
            gate_run_id=run.run_id,
            tests=tests,
            counted_by="tree",
            deliverables=deliverables or {},
            at=self.kernel.now(),
        )
        following = PhaseProgress(number=number + 1, start_tree=self.state().tree, start_commit=commit)
        is_last = number + 1 == len(cycle.phases)
        self.change(sign_offs=(*cycle.sign_offs, done), current=cycle.current if is_last else following)
        self.put_event("phase_complete", build_id=self.build_id, phase=number)

    def audit(self, claims: Claims | None = None) -> dict[str, AuditCheck]:
        """Return the whole audit by code."""
        call, cycle, state = self.call(), self.cycle(), self.state()
        with self.kernel.record.read() as view:
            checks = audit_of(call, view, cycle, state, claims)
        return {check.code: check for check in checks}

    def verdicts(self, claims: Claims | None = None) -> dict[str, str]:
        return {code: check.verdict for code, check in self.audit(claims).items()}

    def git(self, *words: str) -> str:
        return git(self.root, *words)
