"""Configuration: the user's files over the defaults; errors name file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import msgspec
import pytest

from aop.adapters.config.reader import bundled_texts
from aop.core.errors import InvalidConfiguration, InvalidWorkspaceImplementation, Json, Refusal
from aop.core.paths.names import Matching, parse_area
from aop.core.roles import Role
from aop.core.text.yaml import parse_yaml
from aop.kernel.config.agents import Agents, Provider
from aop.kernel.config.checks import Misfit
from aop.kernel.config.gates import CoverageParser, Gates, Mode, Modes, ParserType, Profile, Step
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts, lay_over, load_config
from aop.kernel.config.policy import MergeStrategy, Policy

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
BUNDLED = bundled_texts()


def load(*, policy: str | None = None, gates: str | None = None, agents: str | None = None) -> Config:
    texts = ConfigTexts(policy=file("policy", policy), gates=file("gates", gates), agents=file("agents", agents))
    return load_config(texts, BUNDLED)


def file(name: str, text: str | None) -> ConfigText | None:
    return None if text is None else ConfigText(source=f"main:{name}.yaml", content=text.encode())


def refusal(**texts: str) -> Refusal:
    with pytest.raises(Refusal) as refused:
        load(**texts)
    return refused.value


@pytest.mark.req("AOP-106", "AOP-107", "AOP-108", "AOP-110", "AOP-111", "AOP-112", "AOP-113", "AOP-118", "AOP-121")
def test_a_repository_without_files_has_the_strict_policy() -> None:
    policy = load().policy
    assert msgspec.to_builtins(policy.commit_policy) == {"allow_commit": False, "allow_merge": False}
    assert msgspec.to_builtins(policy.patch_policy) == {
        "enforce_plan": True,
        "enforce_allowed_areas": True,
        "placement": "unique",
        "allow_copy": False,
        "allow_binary": False,
        "allow_symlinks": False,
        "allow_quoted_names": False,
        "max_patch_bytes": 1024 * 1024,
    }
    assert (policy.required_modes, policy.required_merge_mode) == ((Mode.FAST, Mode.FULL), Mode.MERGE)
    assert (policy.merge_mode_optional, policy.collision_policy) == (False, "reject")
    assert (policy.path_rules.normalize_paths, policy.path_rules.allow_symlink_traversal) == (True, False)
    assert (policy.exclusive_areas, policy.permitted_protected_paths) == ((), ())
    assert "PATH" in policy.execution.env_allowlist
    assert msgspec.to_builtins(policy.config_precedence) == {
        "policy_hard_constraints": 1,
        "gates_profile_defaults": 2,
        "plan_verification_overrides": 3,
    }


@pytest.mark.req("AOP-109", "AOP-114", "AOP-115", "AOP-116", "AOP-214")
def test_the_locks_have_their_defaults() -> None:
    locks = load().policy.locks
    assert msgspec.to_builtins(locks) == {
        "resources": ("openapi", "events", "db_migrations"),
        "contract_to_resource": {"openapi": "openapi", "events": "events", "db": "db_migrations"},
        "contract_paths": {
            "openapi": ("**/openapi.yaml", "**/openapi.yml", "**/openapi.json", "**/swagger.yaml", "**/swagger.json"),
            "events": ("**/asyncapi.yaml", "**/asyncapi.yml", "**/asyncapi.json"),
            "db": ("**/migrations/**", "**/db/migration/**", "**/db/migrate/**", "**/alembic/versions/**"),
        },
        "lease_ttl_seconds": 300,
        "acquire_behavior": "wait",
        "default_wait_timeout_seconds": 300,
        "acquire_backoff": {"initial_seconds": 0.5, "multiplier": 2.0, "max_seconds": 30.0, "jitter": 0.2},
    }


@pytest.mark.req("AOP-119", "AOP-120", "AOP-122", "AOP-123", "AOP-124", "AOP-125")
@pytest.mark.req("AOP-237", "AOP-238", "AOP-239", "AOP-240")
def test_execution_testing_merge_and_supervisor_have_their_defaults() -> None:
    policy = load().policy
    assert policy.execution.default_step_timeout_seconds == 600
    assert policy.execution.retry_policy.transient_max_retries == 1
    assert policy.execution.retry_policy.transient_error_codes == ("transient_exec_failure",)
    assert "path_out_of_bounds" in policy.execution.retry_policy.non_retryable_error_codes
    assert (policy.execution.sandbox, policy.execution.network) == ("auto", "none")
    assert (policy.implementation.workspace, policy.testing.framework) == ("uv", "pytest")
    assert msgspec.to_builtins(policy.testing.coverage) == {
        "minimums": {"line": 0.9, "branch": 0.9},
        "targets": {"line": 1.0, "branch": 1.0},
        "skip_unsupported_parser": False,
    }
    assert policy.merge_policy.require_user_approval
    assert policy.merge_policy.allowed_strategies == (MergeStrategy.MERGE_COMMIT, MergeStrategy.SQUASH)
    assert policy.worktree.base_branch == "main"
    assert msgspec.to_builtins(policy.supervisor) == {
        "max_active_features": 5,
        "max_parallel_gate_runs": 2,
        "max_parallel_agent_turns": 5,
        "max_iterations_per_phase": 8,
        "turn_timeout_seconds": 600,
        "turn_spawn_seconds": 60,
        "turn_idle_seconds": 0,
        "collision_strategy": "revise",
        "qa": "on_failure",
        "sessions": "fresh",
    }
    assert policy.locks.default_wait_timeout_seconds == 300


def test_a_policy_with_a_key_of_an_earlier_version_is_read_with_a_warning() -> None:
    config = load(policy="version: 1\nsupervisor: {lock_wait_timeout_seconds: 60, max_active_features: 3}\n")
    assert config.policy.supervisor.max_active_features == 3
    assert config.warnings == (
        "`supervisor.lock_wait_timeout_seconds` has no effect any longer, and can be deleted: "
        "`locks` says how long a lock is waited for.",
    )


@pytest.mark.hostile("P13")
@pytest.mark.parametrize(
    "path",
    (
        "conftest.py tests/conftest.py pytest.ini tox.ini setup.cfg package.json web/package.json Makefile"
        " .github/workflows/ci.yml uv.lock poetry.lock package-lock.json yarn.lock Cargo.lock"
        " pytest.py src/sitecustomize.py usercustomize.py src/evil.pth src/evil.egg-info/entry_points.txt"
        " evil.dist-info/entry_points.txt .npmrc mvnw app/mvnw.cmd .mvn/maven.config gradlew gradlew.bat"
        " gradle/wrapper/gradle-wrapper.properties .cargo/config .cargo/config.toml"
    ).split(),
)
def test_files_that_steer_the_tests_are_protected_by_default(path: str) -> None:
    areas = [parse_area(text, Matching.GLOB) for text in load().policy.steering_files]
    assert any(area.covers(path) for area in areas)


def test_the_default_areas_are_areas_under_both_ways_of_matching() -> None:
    areas = load(policy="version: 1\npath_rules: {matching: repo_prefix}\n").policy.protected_areas
    assert areas == load().policy.protected_areas
    assert parse_area(areas[0], Matching.GLOB).covers("agentic/orchestrator/policy.yaml")


@pytest.mark.req("AOP-135", "AOP-136", "AOP-137")
def test_the_default_agents_have_prompts_and_no_provider() -> None:
    agents = load().agents
    assert (agents.roles.qa.system_prompt_path, agents.missing_prompt_behavior) == (
        "agentic/orchestrator/prompts/qa.system.md",
        "ignore",
    )
    assert (agents.runtime.default_provider, agents.runtime.role_provider_overrides) == (None, {})


def test_the_default_gates_have_one_profile_without_steps() -> None:
    assert load().gates == Gates(version=1, profiles={"default": profile_without_steps()})


def test_objects_merge_and_lists_are_replaced() -> None:
    laid = lay_over({"a": {"b": 1, "c": [1, 2]}, "d": 4}, {"a": {"c": [3], "e": {"f": 1}}, "d": [5]})
    assert laid == {"a": {"b": 1, "c": [3], "e": {"f": 1}}, "d": [5]}


@pytest.mark.parametrize(
    ("user", "path"),
    [({"a": None}, ("a",)), ({"a": {"b": [1, {"c": None}]}}, ("a", "b", 1, "c")), ([None], (0,)), (None, ())],
)
def test_a_null_is_refused_wherever_it_stands(user: Json, path: tuple[str | int, ...]) -> None:
    with pytest.raises(Misfit) as refused:
        lay_over({"a": {"b": 1}}, user)
    assert refused.value.path == path


def test_a_lean_file_changes_what_it_names_and_nothing_else() -> None:
    config = load(policy="version: 1\nlocks:\n  acquire_backoff: {jitter: 0.5}\nrequired_modes: [full]\n")
    plain = load()
    backoff = msgspec.structs.replace(plain.policy.locks.acquire_backoff, jitter=0.5)
    assert config.policy == msgspec.structs.replace(
        plain.policy,
        locks=msgspec.structs.replace(plain.policy.locks, acquire_backoff=backoff),
        required_modes=(Mode.FULL,),
    )
    assert (config.gates, config.agents) == (plain.gates, plain.agents)


def test_the_hash_is_of_what_holds_and_not_of_how_it_is_written() -> None:
    spelled_out = load(policy="# a comment\nversion: 1\nsupervisor: {max_active_features: 5}\n")
    assert spelled_out.hash == load().hash
    assert re.fullmatch("[0-9a-f]{64}", spelled_out.hash)
    assert load(gates="version: 1\nprofiles: {other: {modes: {fast: [], full: []}}}\n").hash != load().hash


def test_the_sources_and_warnings_are_told() -> None:
    text = ConfigText(source="checkout:gates.yaml", content=b"version: 1\n")
    config = load_config(ConfigTexts(gates=text, warnings=("It is not committed.",)), BUNDLED)
    assert config.sources == (("policy", "bundled"), ("gates", "checkout:gates.yaml"), ("agents", "bundled"))
    assert config.warnings == ("It is not committed.",)


def test_a_guessed_base_branch_counts_where_the_policy_names_none() -> None:
    named = ConfigText(source="p", content=b"version: 1\nworktree: {base_branch: trunk}\n")
    assert load_config(ConfigTexts(), BUNDLED, base_branch="master").policy.worktree.base_branch == "master"
    assert load_config(ConfigTexts(policy=named), BUNDLED, base_branch="master").policy.worktree.base_branch == "trunk"


@pytest.mark.req("AOP-127")
def test_a_policy_may_hold_thresholds_of_its_own() -> None:
    assert load(policy="version: 1\nthresholds: {mutation_score: 0.6}\n").policy.thresholds == {"mutation_score": 0.6}


@pytest.mark.req("AOP-117")
def test_the_tools_of_a_role_can_be_listed() -> None:
    rbac = load(policy="version: 1\nrbac:\n  builder: [repo.apply_patch, gates.run]\n  swe: [get_task]\n").policy.rbac
    assert rbac == {Role.BUILDER: ("repo.apply_patch", "gates.run"), Role.SWE: ("get_task",)}


@pytest.mark.req("AOP-100", "AOP-101", "AOP-102", "AOP-103", "AOP-104", "AOP-105")
def test_a_profile_holds_steps_parsers_and_thresholds() -> None:
    profile = load(
        gates="""
version: 1
profiles:
  python:
    modes:
      fast:
        - name: unit
          cmd: [uv, run, pytest, -q, "-k not slow"]
          cwd: packages/core
          env: {CI: "1"}
          timeout_seconds: 60
      full: []
      merge:
        - {name: all, cmd: [make, test]}
    parsers:
      coverage: {type: lcov, path: coverage.lcov, optional: true}
    thresholds: {coverage_line_min: 0.95, coverage_branch_target: 1}
    capabilities: [lcov, none]
    parallel: true
"""
    ).gates.profiles["python"]
    unit = Step(
        name="unit",
        cmd=("uv", "run", "pytest", "-q", "-k not slow"),
        cwd="packages/core",
        env={"CI": "1"},
        timeout_seconds=60,
    )
    assert [profile.modes.steps(mode) for mode in Mode] == [(unit,), (), (Step(name="all", cmd=("make", "test")),)]
    assert profile.parsers.coverage == CoverageParser(type=ParserType.LCOV, path="coverage.lcov", optional=True)
    assert msgspec.to_builtins(profile.thresholds) == {
        "coverage_line_min": 0.95,
        "coverage_branch_min": None,
        "coverage_line_target": None,
        "coverage_branch_target": 1.0,
    }
    assert (profile.capabilities, profile.parallel) == ((ParserType.LCOV, ParserType.NONE), True)


def test_a_profile_without_a_merge_mode_has_no_steps_to_merge() -> None:
    assert profile_without_steps().modes.steps(Mode.MERGE) is None


@pytest.mark.req("AOP-137")
def test_a_role_can_have_a_provider_of_its_own() -> None:
    runtime = load(
        agents="""
version: 1
runtime:
  default_provider: claude
  default_model: opus
  provider_config_env: AOP_CLAUDE_CONFIG
  role_provider_overrides:
    qa: {provider: codex, model: gpt-5}
"""
    ).agents.runtime
    assert (runtime.default_provider, runtime.default_model, runtime.provider_config_env) == (
        Provider.CLAUDE,
        "opus",
        "AOP_CLAUDE_CONFIG",
    )
    assert msgspec.to_builtins(runtime.role_provider_overrides) == {
        "qa": {"provider": "codex", "model": "gpt-5", "provider_config_env": None}
    }


WRONG_POLICIES = [
    ("locks:\n  lease_ttl: 3\n", 3, "locks.lease_ttl", "there is no such key; did you mean `lease_ttl_seconds`?"),
    ("zzz: 1\n", 2, "zzz", "there is no such key."),
    ("supervisor: {max_active_features: true}\n", 2, "supervisor.max_active_features", "expected `int`, got `bool`."),
    ("supervisor: {max_active_features: 2.0}\n", 2, "supervisor.max_active_features", "expected `int`, got `float`."),
    ("supervisor: {max_active_features: 0}\n", 2, "supervisor.max_active_features", "expected `int` >= 1."),
    ("collision_policy: maybe\n", 2, "collision_policy", "it must be `reject` or `block`, not 'maybe'."),
    ("commit_policy:\n  allow_merge: yes\n", 3, "commit_policy.allow_merge", "expected `bool`, got `str`."),
    ("locks: []\n", 2, "locks", "expected `object`, got `array`."),
    ("locks:\n", 2, "locks", "it has no value; leave the key out to get its default."),
    ("protected_areas:\n  - a\n  - 7\n", 4, "protected_areas[1]", "expected `str`, got `int`."),
    ("required_modes: []\n", 2, "required_modes", "expected `array` of length >= 1."),
    ("required_modes: [fast, slow]\n", 2, "required_modes[1]", "it must be `fast`, `full` or `merge`, not 'slow'."),
    ("path_rules: {normalize_paths: false}\n", 2, "path_rules.normalize_paths", "it must be `true`, not False."),
    ("testing: {framework: vitest}\n", 2, "testing.framework", "it must be `pytest`, not 'vitest'."),
    ("rbac:\n  qa: []\n  system: []\n", 4, "rbac.system", "`system` is unrestricted and cannot be narrowed."),
    ("rbac:\n  qa: []\n  planner:\n    - a\n    - A B\n", 6, "rbac.planner[1]", "it is not the name of a tool."),
    ("rbac:\n  qa: []\n  planner: [a, 1]\n", 4, "rbac.planner[1]", "expected `str`, got `int`."),
    (
        "locks:\n  resources: [api]\n",
        2,
        "locks.contract_to_resource.openapi",
        "'openapi' is not one of `locks.resources`.",
    ),
    ("locks:\n  resources: [' ']\n", 3, "locks.resources[0]", "it is not one line of visible text."),
    (
        "locks:\n  acquire_backoff:\n    initial_seconds: 60\n",
        3,
        "locks.acquire_backoff.max_seconds",
        "it is less than `initial_seconds`.",
    ),
    (
        "config_precedence: {policy_hard_constraints: 3}\n",
        2,
        "config_precedence",
        "the order is fixed: policy is 1 (the strongest), gates 2, plan 3.",
    ),
    (
        "execution:\n  retry_policy:\n    transient_error_codes: [path_out_of_bounds]\n",
        4,
        "execution.retry_policy.transient_error_codes[0]",
        "`path_out_of_bounds` is under `non_retryable_error_codes` as well.",
    ),
    (
        "execution:\n  retry_policy: {transient_error_codes: [Oops!]}\n",
        3,
        "execution.retry_policy.transient_error_codes[0]",
        "it is not an error code, such as `gate_timeout`.",
    ),
    (
        "execution: {env_allowlist: [PATH, A=B]}\n",
        2,
        "execution.env_allowlist[1]",
        "it is not the name of an environment variable.",
    ),
    (
        "execution: {sandbox_read: [caches]}\n",
        2,
        "execution.sandbox_read[0]",
        "a folder of this machine is written from `/` or from `~/`.",
    ),
    (
        "execution: {sandbox_write: [~/a/../b]}\n",
        2,
        "execution.sandbox_write[0]",
        "it has `..` or a control character in it.",
    ),
    (
        "merge_policy: {allowed_strategies: []}\n",
        2,
        "merge_policy.allowed_strategies",
        "expected `array` of length >= 1.",
    ),
    ("worktree: {base_branch: a..b}\n", 2, "worktree.base_branch", "git does not allow such a name for a branch."),
    ("worktree: {base_branch: -D}\n", 2, "worktree.base_branch", "git does not allow such a name for a branch."),
    ("worktree: {base_branch: refs/heads/x}\n", 2, "worktree.base_branch", "it is not the plain name of a branch."),
]


@pytest.mark.req("AOP-323")
@pytest.mark.parametrize(("text", "line", "key", "reason"), WRONG_POLICIES)
def test_a_wrong_policy_is_refused_with_its_line_and_key(text: str, line: int, key: str, reason: str) -> None:
    refused = refusal(policy=f"version: 1\n{text}")
    assert type(refused) is InvalidConfiguration
    assert refused.facts == {"file": "main:policy.yaml", "line": line, "key": key}
    assert refused.message == f"In `main:policy.yaml`, line {line}, `{key}` is refused: {reason}"


def profile(text: str) -> str:
    return f"version: 1\nprofiles:\n  rust: {{modes: {{fast: [], full: []}}}}\n  py:\n    {text}\n"


WRONG_GATES = [
    ("modes: {fast: []}", "modes.full", "it is missing."),
    ("modes: {fast: [{cmd: [a]}], full: []}", "modes.fast[0].name", "it is missing."),
    ("modes: {fast: [{name: a}], full: []}", "modes.fast[0].cmd", "it is missing."),
    ("modes: {fast: [{name: a, cmd: []}], full: []}", "modes.fast[0].cmd", "expected `array` of length >= 1."),
    ("modes: {fast: [{name: a, cmd: ls}], full: []}", "modes.fast[0].cmd", "expected `array`, got `str`."),
    (
        "modes: {fast: [{name: a, cmd: [a, '']}], full: []}",
        "modes.fast[0].cmd[1]",
        "an argument cannot be empty, and cannot hold a NUL or a line end.",
    ),
    (
        "modes: {fast: [{name: a b, cmd: [a]}], full: []}",
        "modes.fast[0].name",
        "it becomes part of file names: at most 64 letters, digits, `.`, `_`, `-`, with a letter or digit first.",
    ),
    (
        "modes: {fast: [{name: a, cmd: [a]}, {name: A, cmd: [a]}], full: []}",
        "modes.fast[1].name",
        "two steps of this mode are named `A`.",
    ),
    (
        "modes: {fast: [{name: a, cmd: [a], cwd: ../x}], full: []}",
        "modes.fast[0].cwd",
        "it must be a plain path from the root of the repository: `..` leads out of a directory.",
    ),
    (
        "modes: {fast: [{name: a, cmd: [a], env: {B: b, C: 1}}], full: []}",
        "modes.fast[0].env.C",
        "expected `str`, got `int`.",
    ),
    (
        "modes: {fast: [{name: a, cmd: [a], env: {A-B: b}}], full: []}",
        "modes.fast[0].env.A-B",
        "it is not the name of an environment variable.",
    ),
    (
        'modes: {fast: [{name: a, cmd: [a], env: {A: "\\0"}}], full: []}',
        "modes.fast[0].env.A",
        "it has a NUL in it.",
    ),
    (
        "modes: {fast: [{name: a, cmd: [a], timeout_seconds: 0}], full: []}",
        "modes.fast[0].timeout_seconds",
        "expected `int` >= 1.",
    ),
    ("modes: {fast: [], full: [], slow: []}", "modes.slow", "there is no such key."),
    (
        "modes: {fast: [], full: []}\n    parsers: {coverage: {type: lcov}}",
        "parsers.coverage.path",
        "a parser of type `lcov` needs the path of its report.",
    ),
    (
        "modes: {fast: [], full: []}\n    parsers: {coverage: {type: lcov, path: /etc/x}}",
        "parsers.coverage.path",
        "it must be a plain path from the root of the repository: it is absolute.",
    ),
    (
        "modes: {fast: [], full: []}\n    parsers: {coverage: {type: lcov, path: x, plugin: y}}",
        "parsers.coverage.plugin",
        "only a parser of type `custom` has a plugin.",
    ),
    (
        "modes: {fast: [], full: []}\n    thresholds: {coverage_line_min: 90}",
        "thresholds.coverage_line_min",
        "expected `float` <= 1.0.",
    ),
]


@pytest.mark.req("AOP-099")
@pytest.mark.parametrize(("text", "key", "reason"), WRONG_GATES)
def test_wrong_gates_are_refused_with_their_line_and_key(text: str, key: str, reason: str) -> None:
    refused = refusal(gates=profile(text))
    line = 5 if key.startswith("modes") else 6
    assert refused.facts == {"file": "main:gates.yaml", "line": line, "key": f"profiles.py.{key}"}
    assert refused.message == f"In `main:gates.yaml`, line {line}, `profiles.py.{key}` is refused: {reason}"


def test_a_profile_has_a_name_that_can_be_part_of_a_file_name() -> None:
    refused = refusal(gates="version: 1\nprofiles:\n  a/b: {modes: {fast: [], full: []}}\n")
    assert refused.facts == {"file": "main:gates.yaml", "line": 3, "key": "profiles.a/b"}


WRONG_AGENTS = [
    ("runtime:\n  default_provider: claud\n", 3, "runtime.default_provider"),
    ("runtime:\n  default_model: ''\n", 3, "runtime.default_model"),
    ("runtime:\n  provider_config_env: a-b\n", 3, "runtime.provider_config_env"),
    ("runtime:\n  role_provider_overrides:\n    qa: {}\n    scout: {}\n", 5, "runtime.role_provider_overrides.scout"),
    (
        "runtime:\n  role_provider_overrides:\n    qa: {}\n    planner: {modl: x}\n",
        5,
        "runtime.role_provider_overrides.planner.modl",
    ),
    (
        "runtime:\n  role_provider_overrides:\n    planner: {model: ' '}\n",
        4,
        "runtime.role_provider_overrides.planner.model",
    ),
    (
        "runtime:\n  role_provider_overrides:\n    planner: {provider_config_env: '='}\n",
        4,
        "runtime.role_provider_overrides.planner.provider_config_env",
    ),
    ("roles:\n  planner: {system_prompt_path: ../x}\n", 3, "roles.planner.system_prompt_path"),
    ("roles:\n  swe: {}\n", 3, "roles.swe"),
    ("missing_prompt_behavior: explode\n", 2, "missing_prompt_behavior"),
]


ROW = """\
version: 1
providers:
  mine:
    title: Mine
    command: [mine, run]
    endpoint: {family: openai, url: "https://example.com", url_variable: MINE_URL}
    key_variable: MINE_KEY
    environment: {URL: "{{model_url}}", KEY: "{{model_key}}", TOOLS: "{{mcp_url}}"}
"""
WRONG_ROWS = [
    ("title: Mine", "titel: Mine", 4, "titel", "there is no such key; did you mean `title`?"),
    ("command: [mine, run]", "tried: true", 3, "", "it needs either `command` or `acp`."),
    ("command:", "acp: [mine]\n    command:", 3, "", "it needs either `command` or `acp`."),
    ("run]", '""]', 5, "command[1]", "an argument cannot be empty, and cannot hold a NUL or a line end."),
    (
        "family: openai",
        "family: opnai",
        6,
        "endpoint.family",
        "it must be `anthropic`, `openai` or `google`, not 'opnai'.",
    ),
    ("https://", "//", 6, "endpoint.url", "it is not an address."),
    ("MINE_KEY", "the key", 7, "key_variable", "it is not the name of an environment variable."),
    ("key_variable: MINE_KEY", "", 3, "key_variable", "with an `endpoint`, AOP must know the variable of the key."),
    ("{{mcp_url}}", "x", 3, "", "no text hands it `{{mcp_url}}`, the address of AOP's tools."),
    ("{{model_url}}", "x", 6, "endpoint", "no text hands it `{{model_url}}`, which leads to AOP's meter."),
    ("{{model_key}}", "{{modelkey}}", 8, "environment.KEY", "there is no value `modelkey`; did you mean `model_key`?"),
    (
        "{{model_key}}",
        "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
        8,
        "environment.KEY",
        "it holds a secret; a key stays in a variable, which `key_variable` names.",
    ),
    (
        "key_variable",
        "words: [{when: [shel], words: [x]}]\n    key_variable",
        7,
        "words[0].when[0]",
        "there is no such condition; did you mean `shell`?",
    ),
    ("key_variable", "files: {../x: y}\n    key_variable", 7, "files.../x", None),
    ("key_variable", "login: {files: [/etc/passwd]}\n    key_variable", 7, "login.files[0]", None),
]


def test_a_row_of_a_provider_can_be_chosen() -> None:
    agents = load(agents=f"{ROW}runtime: {{default_provider: mine}}\n").agents
    assert (agents.runtime.default_provider, agents.providers["mine"].command) == ("mine", ("mine", "run"))


@pytest.mark.parametrize(("old", "new", "line", "key", "reason"), WRONG_ROWS)
def test_a_wrong_row_is_refused_with_its_line_and_key(
    old: str, new: str, line: int, key: str, reason: str | None
) -> None:
    assert old in ROW
    refused = refusal(agents=ROW.replace(old, new))
    where = f"providers.mine.{key}".removesuffix(".")
    assert refused.facts == {"file": "main:agents.yaml", "line": line, "key": where}
    if reason is not None:
        assert refused.message == f"In `main:agents.yaml`, line {line}, `{where}` is refused: {reason}"


@pytest.mark.parametrize("name", ["custom", "model", "a b"])
def test_a_row_has_a_name_of_its_own(name: str) -> None:
    refused = refusal(agents=ROW.replace("mine:", f"{name}:"))
    assert refused.facts == {"file": "main:agents.yaml", "line": 3, "key": f"providers.{name}"}


@pytest.mark.req("AOP-136", "AOP-141", "AOP-323")
@pytest.mark.parametrize(("text", "line", "key"), WRONG_AGENTS)
def test_wrong_agents_are_refused_with_their_line_and_key(text: str, line: int, key: str) -> None:
    refused = refusal(agents=f"version: 1\n{text}")
    assert refused.facts == {"file": "main:agents.yaml", "line": line, "key": key}


@pytest.mark.hostile("P06")
@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("", 1, ""),
        ("# only a comment\n", 1, ""),
        ("null\n", 1, ""),
        ("[]\n", 1, ""),
        ("version: 1\nlocks: [\n", 3, ""),
        ("commit_policy: {allow_merge: true}\n", 1, "version"),
        ("version: 2\n", 1, "version"),
        ("version: '1'\n", 1, "version"),
        ("version:\n", 1, "version"),
    ],
)
@pytest.mark.parametrize("name", ["policy", "gates", "agents"])
def test_a_file_that_is_empty_unparsable_or_of_no_known_version_is_no_configuration(
    name: str, text: str, line: int, key: str
) -> None:
    refused = refusal(**{name: text})
    assert refused.facts == {"file": f"main:{name}.yaml", "line": line, "key": key}


@pytest.mark.hostile("P11")
@pytest.mark.parametrize("area", ["src/[ab]", "src/{a,b}", "!src", "src ", "\ufeffsrc", "/etc", "../x", "a**b"])
@pytest.mark.parametrize("key", ["protected_areas", "exclusive_areas", "steering_files", "permitted_protected_paths"])
def test_an_area_that_matches_nothing_or_too_much_is_refused_at_load(key: str, area: str) -> None:
    text = area.replace("\ufeff", "\\ufeff")
    refused = refusal(policy=f'version: 1\n{key}:\n  - src\n  - "{text}"\n')
    assert refused.facts == {"file": "main:policy.yaml", "line": 4, "key": f"{key}[1]"}


def test_a_wildcard_is_no_plain_prefix() -> None:
    refused = refusal(policy="version: 1\nexclusive_areas: ['src/*']\npath_rules: {matching: repo_prefix}\n")
    assert refused.facts["key"] == "exclusive_areas[0]"


@pytest.mark.req("AOP-122")
@pytest.mark.parametrize("value", ["nx", "7", "[uv]"])
def test_a_workspace_other_than_uv_has_a_refusal_of_its_own(value: str) -> None:
    refused = refusal(policy=f"version: 1\nimplementation:\n  workspace: {value}\n")
    assert type(refused) is InvalidWorkspaceImplementation
    assert refused.facts == {"file": "main:policy.yaml", "line": 3, "key": "implementation.workspace"}


def test_a_key_cannot_steer_the_terminal_or_fill_the_message() -> None:
    refused = refusal(policy=f'version: 1\n"\\e[2J{"x" * 900}": 1\n')
    assert str(refused.facts["key"]).startswith("\\x1b[2Jxxx")
    assert len(refused.message) < 400


@pytest.mark.parametrize("place", ["$.locks.a.b.c", "$.rbac[...][0]", "$.required_modes[9]", "$[...]"])
def test_a_key_that_looks_like_a_place_in_the_file_is_still_an_unknown_key(place: str) -> None:
    refused = refusal(policy=f'version: 1\n"x` - at `{place}": 1\n')
    assert (type(refused), refused.message.endswith("there is no such key.")) == (InvalidConfiguration, True)


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def keys(shape: object, prefix: str) -> Iterator[str]:
    """Return every key of a model with its path; `<name>` is a key that the user chooses, `<mode>` any of the three."""
    if NoneType in get_args(shape):
        shape = get_args(shape)[0]
    arguments = get_args(shape)
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        for name, below in get_type_hints(shape).items():
            named = "<mode>" if shape is Modes else name
            yield from keys(below, f"{prefix}.{named}".removeprefix("."))
    elif arguments and isinstance(arguments[-1], type) and issubclass(arguments[-1], msgspec.Struct):
        yield from keys(arguments[-1], f"{prefix}.<name>")
    elif arguments and isinstance(arguments[0], type) and issubclass(arguments[0], msgspec.Struct):
        yield from keys(arguments[0], f"{prefix}[]")
    else:
        yield prefix


@pytest.mark.parametrize("model", [Policy, Gates, Agents])
def test_every_key_is_documented(model: type[msgspec.Struct]) -> None:
    missing = [key for key in keys(model, "") if key not in documented()]
    assert missing == []


def test_the_document_names_no_key_that_is_not_there() -> None:
    known = {key for model in (Policy, Gates, Agents) for key in keys(model, "")}
    assert sorted(documented().keys() - known) == []


def test_every_default_in_the_document_is_the_bundled_one() -> None:
    bundled = {**value_of(BUNDLED.agents), **value_of(BUNDLED.gates), **value_of(BUNDLED.policy)}
    stated = {key: cell.strip("`") for key, cell in documented().items() if cell.startswith("`")}
    wrong = {
        key: value_at(bundled, key)
        for key, cell in stated.items()
        if "<" not in key and parse_yaml(cell.encode()).value != value_at(bundled, key)
    }
    assert wrong == {}


def value_of(text: ConfigText | None) -> dict[str, Json]:
    assert text is not None
    value = parse_yaml(text.content).value
    assert isinstance(value, dict)
    return value


def value_at(value: Json, key: str) -> Json:
    for part in key.split("."):
        value = value[part] if isinstance(value, dict) else None
    return value


def profile_without_steps() -> Profile:
    return load().gates.profiles["default"]
