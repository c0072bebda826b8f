"""Guarded areas: the parts of the repository that the policy protects."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from aop.core.paths.names import Area, Matching, PlannedPath, fold_path, overlap, parse_area
from aop.kernel.config.policy import Policy

OWN = tuple(Area(name) for name in ("agentic", ".aop", ".worktrees"))
"""AOP's own folders: no role of an agent may change them, also if the policy permits it."""

STEERING_GIT = tuple(Area(f"**/{name}") for name in (".gitattributes", ".gitignore", ".gitmodules", ".lfsconfig"))
"""Files that change how git treats others; only a person opens them, by name."""

PLACING = (Area(".worktreeinclude"),)
"""The file that names what of the user's checkout is copied into worktrees, for gates to read."""

STEERS_TESTS = "it steers the tests"

SETTINGS_FILES = ("pyproject.toml", "setup.cfg", "package.json")
"""Files of `steering_files` that steer tests with some of their settings: these are compared, the rest is free."""

AREA_LOCK = "protected:"
"""Prefix of the name of a lock on a protected area."""


class GuardedAreas(Struct, frozen=True, kw_only=True):
    """The guarded areas, parsed."""

    protected: tuple[Area, ...]
    steering: tuple[Area, ...]
    """Files that decide what the tests mean."""
    linked: tuple[Area, ...] = ()
    """Where `worktree.link` puts a link: a file of a feature in its place would be run instead, as a gate."""
    exclusive: tuple[Area, ...]
    permitted: tuple[Area, ...]
    """Guarded paths that a person has permitted by name."""
    lockable: tuple[Area, ...] = ()
    """Protected areas that are open to the holder of their lock."""
    opened: frozenset[str] = frozenset()
    """Paths that a person has opened for the feature that is judged."""

    def guard_of(self, path: str) -> str | None:
        """Return why a path may not be changed, or None."""
        if any(area.covers(path, fold=True) for area in OWN):
            return "it belongs to AOP itself"
        if self.permits(path):
            return None
        if any(area.covers(path, fold=True) for area in self.protected) or self._misspells_lockable(path):
            return "it lies in a protected area"
        if any(area.covers(path, fold=True) for area in STEERING_GIT):
            return "it steers git itself"
        if self._steers(path) and not self.holds_test_settings(path):
            return STEERS_TESTS
        if any(area.covers(path, fold=True) for area in (*PLACING, *self.linked)):
            return "it steers what your checkout gives to worktrees"
        return None

    def holds_test_settings(self, path: str) -> bool:
        """Tell whether a path steers tests with some of its settings, and nobody has permitted it by name."""
        is_named = fold_path(path).rpartition("/")[2] in SETTINGS_FILES
        return is_named and self._steers(path) and not self.permits(path)

    def _steers(self, path: str) -> bool:
        return any(area.covers(path, fold=True) for area in self.steering)

    def _misspells_lockable(self, path: str) -> bool:
        """A lock opens its area as the policy writes it; in other letters it is the same place on some machines."""
        return any(area.covers(path, fold=True) and not area.covers(path) for area in self.lockable)

    def permits(self, path: str) -> bool:
        """Tell whether a person has permitted a path by name, for all features or for this one."""
        return path in self.opened or any(area.covers(path) for area in self.permitted)

    def guard_of_planned(self, entry: PlannedPath) -> str | None:
        """Return why a plan may not name an entry; a pattern is judged by all that it could match."""
        if not entry.is_pattern:
            return self.guard_of(entry.text)
        if any(overlap(area, entry) for area in (*OWN, *self.protected)):
            return "it reaches into a protected area"
        return None

    def exclusive_areas_of(self, entry: PlannedPath) -> tuple[Area, ...]:
        """Return the areas that only one feature at a time may work in, as far as the entry reaches into them."""
        return tuple(area for area in (*self.exclusive, *self.protected, *self.lockable) if overlap(area, entry))


def guarded_areas_of(policy: Policy, opened: frozenset[str] = frozenset()) -> GuardedAreas:
    """Parse the policy's areas, which were checked when it was loaded; `opened` holds for one feature alone."""
    matching = Matching(policy.path_rules.matching)
    lockable = {name.removeprefix(AREA_LOCK) for name in policy.locks.resources if name.startswith(AREA_LOCK)}
    return GuardedAreas(
        protected=_areas(tuple(text for text in policy.protected_areas if text not in lockable), matching),
        lockable=_areas(tuple(text for text in policy.protected_areas if text in lockable), matching),
        steering=_areas(policy.steering_files, Matching.GLOB),
        linked=tuple(Area(path) for path in policy.worktree.link),
        exclusive=_areas(policy.exclusive_areas, matching),
        permitted=_areas(policy.permitted_protected_paths, Matching.GLOB),
        opened=opened,
    )


@lru_cache(maxsize=64)
def _areas(texts: tuple[str, ...], matching: Matching) -> tuple[Area, ...]:
    return tuple(parse_area(text, matching) for text in texts)
