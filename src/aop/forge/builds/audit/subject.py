"""Subject of an audit: one tree of a build, and what its checks read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from aop.core.errors import Fault
from aop.core.ids import GateRunId, TreeId
from aop.forge.builds.audit.deliverables import Deliverable, deliverables_of
from aop.forge.builds.cycle.commits import COMMITTED
from aop.forge.builds.documents import BuildCycle
from aop.forge.check.clauses import CheckedContracts, Clause, Code, contracts_to_check
from aop.forge.check.code_files import code_in
from aop.forge.check.verdicts import clauses_of, with_acceptances
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.shapes.directive import Directive
from aop.forge.contracts.shapes.phases import Phases
from aop.forge.contracts.types import ContractType
from aop.forge.projects.batches import contracts_in, pinned_batch
from aop.forge.projects.documents import AcceptedClause, ContractBatch, ForgeBuild
from aop.forge.scan.imports.import_targets import Imports, resolve_imports
from aop.forge.scan.ports import scanner_of
from aop.kernel.features.tree.tree_history import TAKEN
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.git import GitObjects, LoggedCommit, TreeChange
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.port import JournalEntry, Snapshot

MOST_COMMITS = 10_000

Claims = Mapping[str, tuple[str, ...]]
"""For each deliverable of a sign-off the paths that show it; a text that is not a path of the tree is a reason."""


class AuditSubject:
    """The tree of a build as it is now; what a check does not ask for is not read."""

    def __init__(
        self, call: Call, view: Snapshot, cycle: BuildCycle, state: FeatureState, claims: Claims | None = None
    ) -> None:
        self.call = call
        self.view = view
        self.cycle = cycle
        self.state = state
        self.tree = state.tree
        self._claims = claims or {}
        self._codes: dict[TreeId, Code] = {}
        self._imports: dict[TreeId, Imports] = {}

    @property
    def objects(self) -> GitObjects:
        """Return the objects of the repository."""
        return self.call.kernel.git.objects

    @cached_property
    def baseline(self) -> TreeId:
        """Return the tree that the build began with."""
        return self.objects.tree_of(self.cycle.baseline_sha)

    @cached_property
    def start(self) -> TreeId:
        """Return the tree that the current phase began with."""
        if self.cycle.current.start_tree is not None:
            return self.cycle.current.start_tree
        return self.cycle.sign_offs[-1].tree if self.cycle.sign_offs else self.baseline

    @cached_property
    def changes(self) -> tuple[TreeChange, ...]:
        """Return all that the build changed."""
        return self.objects.changes(self.baseline, self.tree)

    @cached_property
    def phase_changes(self) -> tuple[TreeChange, ...]:
        """Return all that the current phase changed."""
        return self.objects.changes(self.start, self.tree)

    def code_of(self, tree: TreeId) -> Code:
        """Return the code of a tree. Raises: ForgeSupportMissing."""
        if tree not in self._codes:
            self._codes[tree] = code_in(tree, scanner_of(self.call.kernel), self.objects, self.call.report)
        return self._codes[tree]

    def imports_of(self, tree: TreeId) -> Imports:
        """Return the imports of a tree."""
        if tree not in self._imports:
            self._imports[tree] = resolve_imports(self.code_of(tree).inventory)
        return self._imports[tree]

    @property
    def code(self) -> Code:
        """Return the code as it is now."""
        return self.code_of(self.tree)

    @cached_property
    def batch(self) -> ContractBatch:
        """Return the pinned contracts. Raises: Fault if the build is missing."""
        build = self.view.get(ForgeBuild, self.cycle.build_id)
        if build is None:
            raise Fault(f"The build `{self.cycle.build_id}` is missing from the record.")
        return pinned_batch(self.view, build)

    @cached_property
    def texts(self) -> Mapping[ContractType, str]:
        """Return the pinned contracts by type."""
        return {each.contract_type: each.content for each in contracts_in(self.view, self.batch)}

    @cached_property
    def contracts(self) -> CheckedContracts:
        """Return the contracts that have clauses."""
        return contracts_to_check(self.texts, self.cycle.mode)

    @cached_property
    def phases(self) -> Phases:
        """Return the pinned phases."""
        read = read_contract(ContractType.PHASES, self.texts[ContractType.PHASES], self.cycle.mode).content
        return read if isinstance(read, Phases) else Phases(phases=())

    @property
    def is_last_phase(self) -> bool:
        """Tell whether everything that the contracts ask for is due."""
        return self.cycle.current.number >= len(self.phases.phases) - 1

    @cached_property
    def deliverables(self) -> tuple[Deliverable, ...]:
        """Return the deliverables of all phases up to the current one."""
        return deliverables_of(each for each in self.phases.phases if each.number <= self.cycle.current.number)

    @cached_property
    def claims(self) -> Claims:
        """Return all that sign-offs said shows a deliverable, the newest one too."""
        earlier = {text: paths for each in self.cycle.sign_offs for text, paths in each.deliverables.items()}
        return {**earlier, **self._claims}

    @cached_property
    def verify_commands(self) -> tuple[tuple[str, ...], ...]:
        """Return the commands of the pinned directive that prove a phase."""
        text = self.texts[ContractType.BUILDER_DIRECTIVE]
        read = read_contract(ContractType.BUILDER_DIRECTIVE, text, self.cycle.mode).content
        return read.settings.verify if isinstance(read, Directive) else ()

    @cached_property
    def verification(self) -> GateRun | None:
        """Return the newest run of every command of the directive on exactly this tree."""
        wanted = set(self.verify_commands)
        found: GateRun | None = None
        for entry in self.events:
            run_id = entry.event.payload.get("gate_run_id")
            run = self.view.get(GateRun, GateRunId(str(run_id))) if entry.event.kind == "gates_ran" else None
            if run is None or run.subject.tree != self.tree:
                continue
            if wanted <= {step.command for step in run.steps} or (run.verdict is Verdict.FAIL and _begins(run, wanted)):
                found = run
        return found

    @cached_property
    def events(self) -> tuple[JournalEntry, ...]:
        """Return all that the journal says of the build."""
        return tuple(self.view.journal(feature_id=self.state.feature_id))

    @cached_property
    def commits(self) -> tuple[LoggedCommit, ...]:
        """Return the commits of the branch since the baseline, oldest first; of a branch that is gone, as left."""
        tip = self.call.kernel.git.branches.head(self.cycle.branch) or self.cycle.head
        return self.objects.log(self.cycle.baseline_sha, tip, limit=MOST_COMMITS)

    @cached_property
    def own_commits(self) -> Mapping[str, str]:
        """Return the commits that the journal says AOP made, each with its tree."""
        own = (entry.event.payload for entry in self.events if entry.event.kind == COMMITTED)
        return {str(payload["commit"]): str(payload["tree"]) for payload in own}

    @cached_property
    def taken_commits(self) -> frozenset[str]:
        """Return the commits of people that were taken in."""
        taken: list[Any] = [entry.event.payload.get("commits") for entry in self.events if entry.event.kind == TAKEN]
        return frozenset(str(commit) for commits in taken for commit in commits or ())

    def clauses_in(self, tree: TreeId) -> tuple[Clause, ...]:
        """Judge the clauses of the contracts on a tree, with what people accepted."""
        found = clauses_of(self.contracts, self.code_of(tree))
        accepted = {each.clause: each.lines for each in self.view.all(AcceptedClause, f"{self.cycle.project_id}/")}
        return with_acceptances(found, accepted)


def _begins(run: GateRun, wanted: set[tuple[str, ...]]) -> bool:
    """Tell whether a run that failed was one of these commands: it ended before the others."""
    return any(step.command in wanted for step in run.steps)
