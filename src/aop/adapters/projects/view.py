"""What is known of a project before AOP manages it, and what is guessed from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from aop.kernel.config_models import Profile


class Project(Struct, frozen=True, kw_only=True):
    """The files of a project, as its base branch has them."""

    paths: frozenset[str]
    texts: Mapping[str, str]
    """The content of those few files that some language asked for."""


class Guess(Struct, frozen=True, kw_only=True):
    """How a project seems to prove its changes."""

    profile: Profile
    notes: tuple[str, ...] = ()
    """What a person should know before trusting the guess."""


class Language(Struct, frozen=True, kw_only=True):
    """One kind of project that AOP can guess the gates of."""

    name: str
    reads: Callable[[str], bool]
    """Tells whether the guess depends on the text of a file, by its path."""
    guess: Callable[[Project], Guess | None]
    """Returns None for a project of another kind. Pure: all that it knows is in the project."""
