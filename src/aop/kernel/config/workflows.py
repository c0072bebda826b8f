"""Workflow configuration: the shapes of `gated` and `forge` in policy.yaml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand, demand_each
from aop.kernel.config.gates import Count, Seconds, Section, Share, Texts

Attempts = Annotated[int, Meta(ge=1, le=1000)]


class GatedRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`gated` of the policy."""

    master_plan: str
    fetch_base: bool
    preflight_profile: str
    """Empty: the gate profile `preflight`, or `default` where there is none."""
    hypothesize_max: Attempts
    instrumentation_max: Attempts
    unlock_scope_reduction_at: Attempts
    unlock_escalation_at: Attempts
    review_rounds: Attempts
    review_command: tuple[str, ...]
    review_model: str
    """Empty: none. `default`: the one that the environment names. Else `provider:model`."""
    blocking_severity: Literal["CRITICAL", "MAJOR", "MINOR", "SUGGESTION", "INFO"]
    test_globs: tuple[str, ...]
    red_for_the_right_reason: bool
    frozen_tests: bool
    the_fix_matters: bool

    def __post_init__(self) -> None:
        demand(flaws.in_path(self.master_plan), "master_plan")
        demand(flaws.in_stem(self.preflight_profile) if self.preflight_profile else None, "preflight_profile")
        demand_each(flaws.in_argument, self.review_command, "review_command")
        demand(flaws.in_word(self.review_model) if self.review_model else None, "review_model")
        if self.review_command and self.review_model:
            raise Misfit("`review_command` names a reviewer already", "review_model")
        demand_each(flaws.in_glob, self.test_globs, "test_globs")
        if not self.hypothesize_max <= self.instrumentation_max < self.unlock_scope_reduction_at:
            raise Misfit("it is not more than `instrumentation_max`", "unlock_scope_reduction_at")
        if self.unlock_escalation_at < self.unlock_scope_reduction_at:
            raise Misfit("it is less than `unlock_scope_reduction_at`", "unlock_escalation_at")


Turns = Annotated[int, Meta(ge=1, le=100)]
Dollars = Annotated[float, Meta(ge=0, le=1e9)]
ContractName = Literal[
    "manifesto", "blueprint", "stack", "schema", "physics", "boundaries", "ui", "phases", "builder_directive"
]


class CrewRounds(Section, frozen=True, kw_only=True):
    """`forge.build.rounds` of the policy: how many replies each role of a team has at a time."""

    scout: Turns
    coder: Turns
    auditor: Turns
    fixer: Turns


class BuildRules(Section, frozen=True, kw_only=True):
    """`forge.build` of the policy."""

    max_usd: Dollars
    """0 means no cap."""
    warn_at: Share
    max_questions: Annotated[int, Meta(ge=0, le=100)]
    question_minutes: Annotated[int, Meta(ge=1, le=10_080)]
    pause_minutes: Annotated[int, Meta(ge=0, le=525_600)]
    """0 means that a paused build waits for ever."""
    attempts: Turns
    turns: Annotated[int, Meta(ge=1, le=100_000)]
    compact_at_tokens: Count
    beat_seconds: Seconds
    warn_seconds: Seconds
    fail_seconds: Seconds
    test_seconds: Seconds
    syntax_seconds: Seconds
    command_seconds: Seconds
    longest_seconds: Seconds
    commands: Texts
    rounds: CrewRounds

    def __post_init__(self) -> None:
        demand_each(flaws.in_argument, self.commands, "commands")
        if not self.beat_seconds < self.warn_seconds < self.fail_seconds:
            raise Misfit("it is not more than `warn_seconds`, or that not more than `beat_seconds`", "fail_seconds")


class ForgeRules(Section, frozen=True, kw_only=True):
    """`forge` of the policy."""

    max_turns: Turns
    turns: dict[ContractName, Turns]
    """Other limits for single contracts."""
    snowball: tuple[ContractName, ...]
    """The contracts that are written with everything in one prompt."""
    build: BuildRules
