"""Late parts: parts of the kernel that are imported and built when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from aop.adapters.git.process.program import GitDir
    from aop.adapters.git.refs.hub import Hub
    from aop.adapters.git.refs.tree_hub import TreeHub
    from aop.adapters.git.repository import Repository
    from aop.adapters.storage.record.choice import OpenRecord
    from aop.core.ids import FeatureId
    from aop.core.redaction.redactor import Redactor
    from aop.forge.builds.workspace.syntax import SyntaxParsers
    from aop.forge.scan.ports import Registries, Scanner
    from aop.kernel.gateway.calls import Call, Kernel
    from aop.kernel.gateway.principals import Principal
    from aop.kernel.gateway.workspaces import Workspace
    from aop.kernel.ports.fleet import GateWorkers, TurnWorkers
    from aop.kernel.ports.processes import Processes
    from aop.kernel.ports.remotes import Remotes
    from aop.kernel.ports.signer import Signatures
    from aop.kernel.ports.tokenizer import Tokenizer
    from aop.kernel.ports.worktree_extras import ExtrasSource
    from aop.kernel.record.documents.features import FeatureState
    from aop.kernel.record.documents.questions import Question
    from aop.kernel.record.port import Snapshot, Transaction

P = ParamSpec("P")
T = TypeVar("T")

MODULES = (
    "aop.adapters.processes.runner",
    "aop.adapters.git.narrow.narrow_dirs",
    "aop.adapters.git.worktrees.extras",
    "aop.adapters.git.refs.remotes",
    "aop.adapters.machine.ssh_signatures",
    "aop.adapters.models.tokenizer",
    "aop.adapters.projects.deep_scan.commit_scanner",
    "aop.adapters.projects.deep_scan.package_registries",
    "aop.adapters.projects.deep_scan.syntax_parsers",
)
"""The modules that are imported late."""


class _Late:
    """Stands in for a part until the first use of one of its attributes, and forwards to it from then on."""

    def __init__(self, build: Callable[[], object]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> object:
        return self._build()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._built, name)


def _late(build: Callable[P, T]) -> Callable[P, T]:
    """Have a function that builds a part return a stand-in, which calls the function at its first use."""
    return lambda *args, **named: cast("T", _Late(partial(build, *args, **named)))


@_late
def late_processes(
    repository: Repository, environ: Mapping[str, str], redact: Redactor, base_branch: Callable[[], str]
) -> Processes:
    """Return the runner of gate steps; in a sandbox they see what the feature and the base branch reach."""
    from aop.adapters.machine.own_environment import hidden_folders
    from aop.adapters.processes.runner import LocalProcesses
    from aop.adapters.processes.sandbox.shown_git import HiddenRepository

    return LocalProcesses(
        environ,
        redact,
        repository=HiddenRepository(
            root=repository.root,
            git_dir=repository.git_dir,
            show=lambda worktree, report: repository.narrow.shown(worktree, base_branch(), report),
        ),
        hidden=hidden_folders(repository.root),
        private_root=repository.root / ".aop" / "run",
    )


def gate_workers(repository: Repository, environ: Mapping[str, str]) -> GateWorkers | None:
    """Return the workers that run gates; None without a database and a hub. Raises: HubUnavailable."""
    found = _fleet(repository, environ)
    if found is None:
        return None
    from aop.adapters.fleet.orders.gate_queue import GateQueue

    return GateQueue(*found)


def turn_workers(repository: Repository, environ: Mapping[str, str]) -> TurnWorkers | None:
    """Return the workers that take turns of agents; None without a database and a hub. Raises: HubUnavailable."""
    found = _fleet(repository, environ)
    if found is None:
        return None
    from aop.adapters.fleet.orders.turn_queue import TurnQueue

    return TurnQueue(*found)


def _fleet(repository: Repository, environ: Mapping[str, str]) -> tuple[str, str, Hub] | None:
    """Return the database of the fleet, the name of the repository in it, and the hub."""
    if "AOP_HUB" not in environ:
        return None
    from aop.adapters.git.refs.hub import Hub, hub_address
    from aop.adapters.storage.record.choice import place_of

    place, url = place_of(repository.root, environ), hub_address(environ)
    if place is None or not url:
        return None
    return place.url, place.name, Hub(repository.git, environ, url, repository.objects.flush_names)


def joined_hub(
    record: OpenRecord, repository: Repository, environ: Mapping[str, str], *, to_read: bool
) -> TreeHub | None:
    """Return the hub, with the work of all machines here; None for a record of one. Raises: HubUnavailable."""
    from aop.adapters.git.refs.hub import hub_address
    from aop.adapters.git.refs.tree_hub import TreeHub
    from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
    from aop.core.errors import HubUnavailable
    from aop.kernel.features.tree.hub_refs import sweep_number
    from aop.kernel.record.documents.features import FeatureState

    if not isinstance(record, PostgresRecord):
        return None
    with record.read() as view:
        states, sweep = tuple(view.all(FeatureState)), sweep_number(view)
    hub = TreeHub(
        repository.git,
        environ,
        hub_address(environ),
        repository.objects.flush_names,
        repository,
        name=record.name,
        sweep=sweep,
        foreign_bases=record.bases_of_others,
    )
    record.publish = hub.publish
    if record.is_shared:
        with suppress(*([HubUnavailable] if to_read else [])):
            hub.fetch_work(states)
    elif not to_read:
        hub.publish(states, sweep)
        record.share()
    return hub


def sends_work_to(hub: TreeHub | None) -> Callable[[FeatureState], None]:
    """Return what has the work of a feature at the hub; nothing without one."""
    return (lambda _state: None) if hub is None else (lambda state: hub.send((state,)))


@_late
def late_worktree_extras(git: GitDir, repository: Repository) -> ExtrasSource:
    """Return the worktree extras of the checkout."""
    from aop.adapters.git.worktrees.extras import CheckoutExtras

    return CheckoutExtras(git, root=repository.root, common=repository.git_dir)


@_late
def late_remotes(repository: Repository, environ: Mapping[str, str]) -> Remotes:
    """Return the remotes of the repository."""
    from aop.adapters.git.refs.remotes import GitRemotes

    return GitRemotes(repository.git, environ, flush_objects=repository.objects.flush_names)


@_late
def late_signatures(environ: Mapping[str, str]) -> Signatures:
    """Return the checks of people's signatures."""
    from aop.adapters.machine.ssh_signatures import SshSignatures
    from aop.kernel.merges.approval_signatures import NAMESPACE

    return SshSignatures(NAMESPACE, environ)


@_late
def late_tokenizer() -> Tokenizer:
    """Return the tokenizer; without the extra `forge` its first use is refused."""
    from aop.adapters.models.tokenizer import O200kTokenizer

    return O200kTokenizer()


@_late
def late_scanner(repository: Repository) -> Scanner:
    """Return the reader of commits; without the extra `forge` its first use is refused."""
    from aop.adapters.projects.deep_scan.commit_scanner import CommitScanner

    return CommitScanner(repository)


@_late
def late_syntax() -> SyntaxParsers:
    """Return the parsers of this machine."""
    from aop.adapters.projects.deep_scan.syntax_parsers import MachineParsers

    return MachineParsers()


@_late
def late_registries(environ: Mapping[str, str]) -> Registries:
    """Return the registries of this machine's package managers."""
    from aop.adapters.projects.deep_scan.package_registries import PackageRegistries

    return PackageRegistries(environ)


def show_workflow(kernel: Kernel, name: FeatureId) -> None:
    """Bring the worktree of a gated workflow, or of a build, up to the record."""
    from aop.forge.builds.workspace.projection import show_contracts
    from aop.gated.session import session

    if not show_contracts(kernel, name):
        session.show_workflow(kernel, name)


def workspace_of(view: Snapshot, principal: Principal) -> Workspace:
    """Return the workspace of a caller: a forge role has that of its build, all others that of their workflow."""
    from aop.kernel.gateway.tokens import PROJECT_ROLES

    if principal.build is not None or principal.role in PROJECT_ROLES:
        from aop.forge.builds.workspace import build_workspace

        return build_workspace.workspace_of(view, principal)
    from aop.gated.session import workspace

    return workspace.workspace_of(view, principal)


def question_ended(tx: Transaction, call: Call, question: Question) -> None:
    """Tell the build that asked a question of its end."""
    if "clarification" in question.detail:
        from aop.forge.builds.people import clarifications

        clarifications.announce_end(tx, call, question)


def prove_contracts(view: Snapshot) -> Mapping[str, int]:
    """Check the contracts of projects against the journal."""
    from aop.forge.projects import evidence

    return evidence.prove_contracts(view)
