"""Policy: the shape of policy.yaml, whose bundled file holds all defaults."""

from enum import StrEnum
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.paths.names import Matching
from aop.core.roles import Role
from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand_each
from aop.kernel.config.gates import Count, Mode, Seconds, Section, Share, Texts
from aop.kernel.config.people import ApprovalRules, CostRules, InboxRules, NotificationRules
from aop.kernel.config.workflows import ForgeRules, GatedRules
from aop.kernel.config.worktrees import WorktreeRules

Amount = Annotated[int, Meta(ge=0, le=2**62)]


class StepLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`execution.limits` of the policy; 0 means no limit."""

    memory_bytes: Amount
    processes: Amount
    file_bytes: Amount
    open_files: Amount
    tmp_bytes: Amount


NO_LIMITS = StepLimits(memory_bytes=0, processes=0, file_bytes=0, open_files=0, tmp_bytes=0)


Wait = Annotated[int, Meta(ge=0, le=86_400)]


class MergeStrategy(StrEnum):
    """The way in which a feature is merged into the base branch."""

    MERGE_COMMIT = "merge_commit"
    SQUASH = "squash"
    REBASE = "rebase"


class CheckoutRule(StrEnum):
    """What a person's `aop merge` does with a checkout of the base branch."""

    FOLLOW = "follow"
    """Index and files are brought to the merge; a local change that would be lost stops it."""
    LEAVE = "leave"
    ASK = "ask"


class CollisionStrategy(StrEnum):
    """The orchestrator's first reaction to a plan that collides."""

    REVISE = "revise"
    WAIT = "wait"
    ASK = "ask"
    MODEL = "model"
    """A model chooses one of the others; without its advice it is `revise`."""


class Sessions(StrEnum):
    """The beginning of a role's next turn."""

    FRESH = "fresh"
    """In a new session."""
    RESUME = "resume"
    """In the session of its last turn, where its agent can go on with one."""


class QaTurns(StrEnum):
    """The features whose QA takes a turn."""

    ALWAYS = "always"
    """Each feature, before its full gates."""
    ON_FAILURE = "on_failure"
    """Only those whose full gates fail."""


class CommitPolicy(Section, frozen=True, kw_only=True):
    allow_commit: bool
    allow_merge: bool


class Placement(StrEnum):
    """How far the line number of a hunk is believed (`patch_policy.placement`)."""

    UNIQUE = "unique"
    """If it is wrong, and exactly one place below the hunk above fits, the hunk goes there."""
    EXACT = "exact"
    """It is right, or the hunk is refused."""


class PatchPolicy(Section, frozen=True, kw_only=True):
    enforce_plan: bool
    enforce_allowed_areas: bool
    placement: Placement
    allow_copy: bool
    allow_binary: bool
    allow_symlinks: bool
    allow_quoted_names: bool
    max_patch_bytes: Count


class ContractResources(Section, frozen=True, kw_only=True):
    openapi: str
    events: str
    db: str


class ContractPaths(Section, frozen=True, kw_only=True):
    openapi: Texts
    events: Texts
    db: Texts

    def __post_init__(self) -> None:
        for contract in ("openapi", "events", "db"):
            demand_each(flaws.in_glob, getattr(self, contract), contract)


class Backoff(Section, frozen=True, kw_only=True):
    initial_seconds: Annotated[float, Meta(gt=0, le=3600)]
    multiplier: Annotated[float, Meta(ge=1, le=10)]
    max_seconds: Annotated[float, Meta(gt=0, le=3600)]
    jitter: Share

    def __post_init__(self) -> None:
        if self.max_seconds < self.initial_seconds:
            raise Misfit("it is less than `initial_seconds`", "max_seconds")


class LockRules(Section, frozen=True, kw_only=True):
    resources: Texts
    contract_to_resource: ContractResources
    contract_paths: ContractPaths
    lease_ttl_seconds: Seconds
    acquire_behavior: Literal["wait", "fail"]
    default_wait_timeout_seconds: Wait
    acquire_backoff: Backoff

    def __post_init__(self) -> None:
        demand_each(flaws.in_word, self.resources, "resources")
        named = self.contract_to_resource
        for contract, resource in (("openapi", named.openapi), ("events", named.events), ("db", named.db)):
            if resource not in self.resources:
                raise Misfit(f"{resource!a} is not one of `locks.resources`", "contract_to_resource", contract)


class ConfigPrecedence(Section, frozen=True, kw_only=True):
    policy_hard_constraints: Count
    gates_profile_defaults: Count
    plan_verification_overrides: Count

    def __post_init__(self) -> None:
        if not self.policy_hard_constraints < self.gates_profile_defaults < self.plan_verification_overrides:
            raise Misfit("the order is fixed: policy is 1 (the strongest), gates 2, plan 3")


class PathRules(Section, frozen=True, kw_only=True):
    matching: Matching
    normalize_paths: Literal[True]
    allow_symlink_traversal: bool


class RetryPolicy(Section, frozen=True, kw_only=True):
    transient_max_retries: Annotated[int, Meta(ge=0, le=10)]
    transient_error_codes: Texts
    non_retryable_error_codes: Texts

    def __post_init__(self) -> None:
        demand_each(flaws.in_code, self.transient_error_codes, "transient_error_codes")
        demand_each(flaws.in_code, self.non_retryable_error_codes, "non_retryable_error_codes")
        for index, code in enumerate(self.transient_error_codes):
            if code in self.non_retryable_error_codes:
                raise Misfit(f"`{code}` is under `non_retryable_error_codes` as well", "transient_error_codes", index)


class ExecutionRules(Section, frozen=True, kw_only=True):
    default_step_timeout_seconds: Seconds
    retry_policy: RetryPolicy
    env_allowlist: Texts
    sandbox: Literal["auto", "require", "off"]
    sandbox_read: Texts
    sandbox_write: Texts
    network: Literal["none", "host"]
    provider_tools: Literal["deny", "allow"]
    limits: StepLimits
    max_log_bytes: Annotated[int, Meta(ge=4096)]

    def __post_init__(self) -> None:
        demand_each(flaws.in_variable, self.env_allowlist, "env_allowlist")
        demand_each(flaws.in_folder, self.sandbox_read, "sandbox_read")
        demand_each(flaws.in_folder, self.sandbox_write, "sandbox_write")


class Implementation(Section, frozen=True, kw_only=True):
    workspace: Literal["uv"]


class CoverageShares(Section, frozen=True, kw_only=True):
    line: Share
    branch: Share


class CoverageRules(Section, frozen=True, kw_only=True):
    minimums: CoverageShares
    targets: CoverageShares
    skip_unsupported_parser: bool


class TestingRules(Section, frozen=True, kw_only=True):
    framework: Literal["pytest"]
    coverage: CoverageRules
    allow_fewer_tests: bool
    """Whether a test of the base that no longer runs is only told, and not a failure."""
    allow_flaky_gates: bool
    """Whether a pass on a tree on which the same gates failed before is only told, and not a failure."""


class RequiredProfile(Section, frozen=True, kw_only=True):
    """A gate profile that a change of some paths must pass, whatever its plan names."""

    paths: Annotated[Texts, Meta(min_length=1)]
    profile: str

    def __post_init__(self) -> None:
        demand_each(flaws.in_glob, self.paths, "paths")


class GateRules(Section, frozen=True, kw_only=True):
    required: tuple[RequiredProfile, ...]
    base_tests: Literal["always", "changed", "off"]
    """When the tests of the base run once more on a feature's code, as the base has them."""
    test_files: Texts
    """The tests, with their helpers and data, which the base then provides."""
    qa_after: Literal["fast", "full"]
    """The mode whose pass ends the building."""

    def __post_init__(self) -> None:
        demand_each(flaws.in_glob, self.test_files, "test_files")


class MergePolicy(Section, frozen=True, kw_only=True):
    require_user_approval: bool
    allowed_strategies: Annotated[tuple[MergeStrategy, ...], Meta(min_length=1)]
    checkout: CheckoutRule


class PlanningRules(Section, frozen=True, kw_only=True):
    require_obligations: bool
    """Whether a plan must say of every obligation of its spec what becomes of it."""


class SupervisorRules(Section, frozen=True, kw_only=True):
    max_active_features: Count
    max_parallel_gate_runs: Count
    max_parallel_agent_turns: Count
    max_iterations_per_phase: Count
    turn_timeout_seconds: Seconds
    turn_spawn_seconds: Seconds
    turn_idle_seconds: Wait
    collision_strategy: CollisionStrategy
    qa: QaTurns
    sessions: Sessions


class Policy(Section, frozen=True, kw_only=True):
    """policy.yaml: the hard constraints."""

    version: Literal[1]
    commit_policy: CommitPolicy
    patch_policy: PatchPolicy
    locks: LockRules
    protected_areas: Texts
    exclusive_areas: Texts
    steering_files: Texts
    permitted_protected_paths: Texts
    required_modes: Annotated[tuple[Mode, ...], Meta(min_length=1)]
    required_merge_mode: Mode
    merge_mode_optional: bool
    collision_policy: Literal["reject", "block"]
    config_precedence: ConfigPrecedence
    rbac: dict[Role, Texts]
    path_rules: PathRules
    execution: ExecutionRules
    implementation: Implementation
    testing: TestingRules
    gates: GateRules
    merge_policy: MergePolicy
    approval: ApprovalRules
    worktree: WorktreeRules
    planning: PlanningRules
    gated: GatedRules
    forge: ForgeRules
    supervisor: SupervisorRules
    cost: CostRules
    inbox: InboxRules
    notifications: NotificationRules
    thresholds: dict[str, float]

    def __post_init__(self) -> None:
        flaw_in = partial(flaws.in_area, matching=self.path_rules.matching)
        demand_each(flaw_in, self.protected_areas, "protected_areas")
        demand_each(flaw_in, self.exclusive_areas, "exclusive_areas")
        demand_each(flaws.in_glob, self.steering_files, "steering_files")
        demand_each(flaws.in_glob, self.permitted_protected_paths, "permitted_protected_paths")
        for index, resource in enumerate(self.locks.resources):
            area = resource.removeprefix("protected:")
            if area != resource and area not in self.protected_areas:
                raise Misfit(f"{area!a} is not one of `protected_areas`", "locks", "resources", index)
        if Role.SYSTEM in self.rbac:
            raise Misfit("`system` is unrestricted and cannot be narrowed", "rbac", Role.SYSTEM.value)
        for role, tools in self.rbac.items():
            demand_each(flaws.in_tool, tools, "rbac", role.value)
