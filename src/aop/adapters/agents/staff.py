"""Who works in which role of a run, and what the repository tells them before anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from aop.adapters.agents.custom import CustomWorker, Surroundings, command_from
from aop.core.errors import MissingRolePrompt
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.calls import Kernel, feature_named
from aop.kernel.config import Config
from aop.kernel.ports import Git
from aop.supervisor import prompts
from aop.supervisor.workers import ProviderChoice, Worker

_ANY_TIME = datetime(1980, 1, 1, tzinfo=UTC)
WORKERS = (Role.PLANNER, Role.BUILDER, Role.QA)


class CommandStaff:
    """Implements `aop.supervisor.life.Staff` with commands of the user's."""

    def __init__(
        self,
        choices: Mapping[Role, ProviderChoice],
        prompts: Mapping[Role, str],
        environ: Mapping[str, str],
        around: Surroundings,
    ) -> None:
        """Make the workers.

        Raises: ProviderAuthMissing.
        """
        self._choices = choices
        self._prompts = prompts
        self._workers = {
            role: CustomWorker(command_from(environ, choices[role].provider_config_ref), around) for role in WORKERS
        }

    def choice(self, role: Role) -> ProviderChoice:
        return self._choices[role]

    def worker(self, feature_id: FeatureId, role: Role) -> Worker:
        return self._workers[role]

    def prompt(self, role: Role) -> str:
        return self._prompts[role]


def role_prompts(git: Git, config: Config) -> dict[Role, str]:
    """Return what each role is told: the file of the base branch that agents.yaml names, or AOP's own.

    Raises: MissingRolePrompt.
    """
    base = git.branch_head(config.policy.worktree.base_branch)
    tree = None if base is None else git.tree_of(base)
    found: dict[Role, str] = {}
    for role in WORKERS:
        path = getattr(config.agents.roles, role).system_prompt_path
        entry = git.entry(tree, path) if tree and path else None
        if entry is None and path and config.agents.missing_prompt_behavior == "error":
            raise MissingRolePrompt(f"The prompt `{path}` of the {role} is not on the base branch.", path=path)
        found[role] = shipped_prompt(role) if entry is None else git.blob(entry.oid).decode(errors="replace")
    return found


def shipped_prompt(role: Role) -> str:
    """Return the prompt that AOP brings along."""
    return (Path(str(prompts.__file__)).with_name(f"{role}.md")).read_text(encoding="utf-8")


def feature_scratch(kernel: Kernel) -> Callable[[FeatureId], AbstractContextManager[Path]]:
    """Return what gives a copy of a feature's tree that is gone afterwards."""

    @contextmanager
    def scratch(feature_id: FeatureId) -> Iterator[Path]:
        with kernel.record.read() as view:
            state = feature_named(view, feature_id)
        base = state.base_commit
        is_new = state.tree == kernel.git.tree_of(base)
        commit = base if is_new else kernel.git.commit(state.tree, [base], "Scratch\n", when=_ANY_TIME)
        with kernel.git.scratch_checkout(commit) as folder:
            yield folder

    return scratch
