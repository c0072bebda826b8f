"""Drafts: the proposed gates of each project, changed until the base passes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.adapters.projects.layout import FoundProject, projects_by_profile
from aop.kernel.config.gates import Mode, Modes, Parsers, Profile, Step
from aop.kernel.config.worktrees import SetupCommand

TESTS = "test"
INSTALL = "install"


class LeftOut(Struct, frozen=True, kw_only=True):
    """A step that is not written as a gate, and why."""

    step: Step
    modes: tuple[Mode, ...]
    cause: str
    why: str


class Draft(Struct, frozen=True, kw_only=True):
    """The proposed gates of a project, and what its worktrees need for them."""

    found: FoundProject
    links: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    setup: tuple[SetupCommand, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    cures: tuple[str, ...] = ()
    """The changes to the first guess, as people are shown them."""

    @property
    def profile(self) -> Profile:
        """Return the gate profile as it is now."""
        return self.found.guess.profile

    def steps(self, mode: Mode) -> tuple[Step, ...]:
        """Return the steps of a mode."""
        return self.profile.modes.steps(mode) or ()

    def with_steps(self, steps: Mapping[Mode, Sequence[Step]], parsers: Parsers | None = None) -> Draft:
        """Return the draft with other steps in every mode, and other parsers if they are given."""
        modes = Modes(**{mode.value: tuple(steps[mode]) for mode in Mode})
        profile = msgspec.structs.replace(
            self.profile, modes=modes, parsers=self.profile.parsers if parsers is None else parsers
        )
        guess = msgspec.structs.replace(self.found.guess, profile=profile)
        return msgspec.structs.replace(self, found=msgspec.structs.replace(self.found, guess=guess))

    def leave_out(self, step: Step, *, cause: str, why: str) -> Draft:
        """Return the draft without a step: neither in the mode where it failed nor in others that have it."""
        having = tuple(mode for mode in Mode if step in self.steps(mode))
        steps = {mode: [one for one in self.steps(mode) if one != step] for mode in Mode}
        if all(one.name == INSTALL for mode in Mode for one in steps[mode]):
            steps = {mode: [] for mode in Mode}
        left = LeftOut(step=step, modes=having, cause=cause, why=why)
        tests_left = any(one.name.startswith(TESTS) for mode in Mode for one in steps[mode])
        draft = self.with_steps(steps, self.profile.parsers if tests_left else Parsers())
        return msgspec.structs.replace(draft, left_out=(*self.left_out, left))


def drafts_by_profile(drafts: Sequence[Draft]) -> dict[str, Draft]:
    """Return the drafts by the names of their gate profiles."""
    names = projects_by_profile([draft.found for draft in drafts])
    return dict(zip(names, drafts if len(drafts) < 2 else (drafts[0], *drafts), strict=True))
