"""Verification commands of a build, from the project's own choices."""

from __future__ import annotations

from collections.abc import Mapping

from aop.forge.generation.inputs import GenerationInputs
from aop.forge.projects.questionnaire import verification_commands

COMMANDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "python": (("python", "-m", "pytest"),),
    "typescript": (("npm", "test"),),
    "javascript": (("npm", "test"),),
    "java": (("mvn", "--batch-mode", "test"),),
    "go": (("go", "vet", "./..."), ("go", "test", "./...")),
    "rust": (("cargo", "test"),),
}
"""The tests of a language, as its own tools run them."""
OTHERWISE = (("make", "test"),)


def verification_of(inputs: GenerationInputs) -> tuple[tuple[str, ...], ...]:
    """Return the commands that prove a phase: those that the person named, else the tests of the language."""
    if named := verification_commands(inputs.answers):
        return named
    profile = inputs.scan.get("stack_profile")
    primary = profile.get("primary_language") if isinstance(profile, Mapping) else None
    return COMMANDS.get(primary.casefold(), OTHERWISE) if isinstance(primary, str) else OTHERWISE
