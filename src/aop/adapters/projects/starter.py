"""Starter files: the first configuration of a repository; no file is overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.adapters.config.locations import FOLDER, NAMES
from aop.adapters.config.reader import bundled_texts, read_config
from aop.adapters.git.repository import Repository
from aop.adapters.projects.drafts import Draft, drafts_by_profile
from aop.adapters.projects.guesses import Project
from aop.adapters.projects.layout import find_projects
from aop.adapters.projects.scan import ATTRIBUTES, LANGUAGES, checked_out_branch, guess_base_branch, read_project
from aop.adapters.projects.texts import agents_text, gates_text, opened_folders, policy_text
from aop.adapters.projects.trials.cures import with_named_tests
from aop.adapters.projects.trials.environments import Environments, environments_of, in_own_environment
from aop.core.errors import BaseBranchUnusable
from aop.core.ids import CommitId
from aop.core.text.counts import list_some
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts, load_config

MOST_NAMED = 5
NOTHING_KNOWN = (
    "No known language was found, so the gates have no steps and cannot pass: write your test commands into gates.yaml."
)


class Proposal(Struct, frozen=True, kw_only=True):
    """The configuration that `aop init` proposes."""

    base_branch: str
    head: CommitId
    """The commit of the base branch."""
    checked_out: str | None
    config: Config
    """The configuration in force before it."""
    drafts: tuple[Draft, ...] = ()
    environments: Environments = Environments()
    gaps: tuple[str, ...] = ()
    """What a worktree does not hold of the repository."""
    has_run: bool = False
    """Whether the gates were tried on the base commit."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """Return the names of the files that do not exist yet."""
        return tuple(name for name, source in self.config.sources if source == "bundled")

    @property
    def existing(self) -> tuple[str, ...]:
        """Return the paths of the files that exist."""
        return tuple(f"{FOLDER}/{name}.yaml" for name, _ in self.config.sources if name not in self.lacking)

    @property
    def language(self) -> str | None:
        """Return the languages of the projects; None if nothing was guessed: no known one, or existing gates."""
        return ", ".join(draft.found.title for draft in self.drafts) or None

    @property
    def files(self) -> dict[str, str]:
        """Return the texts of the files that do not exist yet, by their names in the folder."""
        texts = texts_of(self.base_branch, self.drafts)
        return {f"{name}.yaml": texts[name] for name in self.lacking}

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a person should know."""
        guessed = tuple(_notes(self)) if "gates" in self.lacking else ()
        return (*self.config.warnings, *guessed, *self.gaps)

    def config_with(self, drafts: Sequence[Draft]) -> Config:
        """Return the configuration that would be in force with the files of these drafts."""
        texts = texts_of(self.base_branch, drafts)
        policy, gates, agents = (ConfigText(source=name, content=texts[name].encode()) for name in NAMES)
        named = ConfigTexts(policy=policy, gates=gates, agents=agents)
        proposed = load_config(named, bundled_texts(), base_branch=self.base_branch)
        return msgspec.structs.replace(self.config, **{name: getattr(proposed, name) for name in self.lacking})


def texts_of(base_branch: str, drafts: Sequence[Draft]) -> Mapping[str, str]:
    """Return the text of each configuration file."""
    return {"policy": policy_text(base_branch, drafts), "gates": gates_text(drafts), "agents": agents_text()}


def propose(repository: Repository) -> Proposal:
    """Return the configuration that a repository lacks. Raises: BaseBranchUnusable, InvalidConfiguration."""
    checked_out = checked_out_branch(repository)
    base = guess_base_branch(repository.branches, checked_out)
    config = read_config(repository.branches.head, repository.objects, repository.root, base_branch=base)
    base_branch = config.policy.worktree.base_branch
    head = repository.branches.head(base_branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{base_branch}` has no commit.", base_branch=base_branch)
    proposal = Proposal(base_branch=base_branch, head=head, checked_out=checked_out, config=config)
    return _with_drafts(proposal, repository) if "gates" in proposal.lacking else proposal


def _with_drafts(proposal: Proposal, repository: Repository) -> Proposal:
    project = read_project(repository.objects, repository.objects.tree_of(proposal.head))
    found = find_projects(project, LANGUAGES)
    environments = environments_of(repository, tuple(one.folder for one in found))
    drafts = [with_named_tests(Draft(found=one)) for one in found]
    if "policy" in proposal.lacking:
        drafts = [in_own_environment(draft, environments) for draft in drafts]
    gaps = tuple(_gaps(project))
    return msgspec.structs.replace(proposal, drafts=tuple(drafts), environments=environments, gaps=gaps)


def _gaps(project: Project) -> Iterator[str]:
    if project.submodules:
        named = list_some([f"`{path}`" for path in project.submodules], MOST_NAMED)
        yield f"Worktrees do not hold the files of submodules ({named}), and gates run without them."
    if "filter=lfs" in project.texts.get(ATTRIBUTES, ""):
        yield "Files in Git LFS are pointers in worktrees: gates do not see their contents."


def reasons_of(drafts: Sequence[Draft]) -> Iterator[str]:
    """Yield the reason for each guessed step."""
    for name, draft in drafts_by_profile(drafts).items():
        if name == "default" and len(drafts) > 1:
            continue
        prefix = "" if name == "default" else f"{name}: "
        yield from (f"{prefix}{step}: {why}" for step, why in draft.found.guess.reasons.items())


def _notes(proposal: Proposal) -> Iterator[str]:
    drafts = proposal.drafts
    if not drafts:
        yield NOTHING_KNOWN
    if len(drafts) > 1:
        _default, *others = (f"`{name}`" for name in drafts_by_profile(drafts))
        yield (
            f"There are several projects, each with a gate profile: {', '.join(others)}. `default` covers only the main"
            f" one, {drafts[0].found.title}: a plan that changes another one must name its profile as `gate_profile`."
        )
    yield from dict.fromkeys(note for draft in drafts for note in draft.found.guess.notes)
    unproven = [draft for draft in drafts if not (proposal.has_run and all(map(draft.steps, Mode)))]
    yield from dict.fromkeys(hint for draft in unproven for hint in draft.found.guess.hints)
    if "policy" not in proposal.lacking and any(opened_folders(drafts).values()):
        yield "policy.yaml already exists and was not changed: add the lines that open these folders."
