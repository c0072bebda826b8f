"""Texts of the three configuration files, each key with the reason for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from aop.adapters.projects.drafts import Draft, LeftOut, drafts_by_profile
from aop.core.errors import Json
from aop.core.text.yaml import dump_yaml
from aop.kernel.config.gates import Mode, Parsers, Step
from aop.kernel.config.worktrees import SetupCommand

POLICY_HEAD = """\
# The rules for features. Only what differs from AOP's defaults is written here.
# `aop config` shows every key with its default, `aop config KEY` explains one.
version: 1
"""
GATES_HEAD = """\
# The gates: the commands that a feature must pass. A mode without steps cannot pass.
# `fast` runs while a feature is built, `full` before it is approved, `merge` on the merged tree.
# `aop config profiles` explains every key.
version: 1
profiles:
"""
AGENTS_HEAD = """\
# The coding agent of each role. `aop config runtime` explains every key.
version: 1
# The agent of every role, unless a command names one with --agent-provider: claude, codex, gemini, custom or model.
# runtime:
#   default_provider: claude
"""
WHY_LINK = "Not in git, but the gates need it: each worktree gets a link to the one in your checkout."
WHY_COPY = "Made by a build and ignored by git, but the tests import it: each worktree gets a copy."
WHY_SETUP = "Makes each new worktree ready, once."
WHY_NETWORK = (
    "`network: host` opens the network for this command alone, and for all code that it runs; gates have none.",
    "Where a feature changes an input of the command, the network stays closed until a person agrees.",
)
WHY_READ = "Folders outside the repository that the gates read."
WHY_WRITE = "Folders outside the repository that the gates read and change."


def policy_text(base_branch: str, drafts: Sequence[Draft] = ()) -> str:
    """Return a policy.yaml with the base branch and what the gates need."""
    lines = ["worktree:", "  # Features start from this branch and are merged into it."]
    lines += [f"  {dump_yaml({'base_branch': base_branch}).strip()}"]
    links = list(dict.fromkeys(link for draft in drafts for link in draft.links))
    if links:
        lines += [f"  # {WHY_LINK}", f"  link: {_flow(links)}"]
    copies = list(dict.fromkeys(path for draft in drafts for path in draft.copies))
    if copies:
        lines += [f"  # {WHY_COPY}", f"  copy: {_flow(copies)}"]
    lines += _setup_lines(list(dict.fromkeys(command for draft in drafts for command in draft.setup)))
    opened = opened_folders(drafts)
    if any(opened.values()):
        lines.append("execution:")
        for key, why in (("sandbox_read", WHY_READ), ("sandbox_write", WHY_WRITE)):
            lines += [f"  # {why}", f"  {key}: {_flow(opened[key])}"] if opened[key] else []
    return POLICY_HEAD + "".join(f"{line}\n" for line in lines)


def opened_folders(drafts: Sequence[Draft]) -> dict[str, list[str]]:
    """Return the folders of this machine that the steps need."""
    guesses = [draft.found.guess for draft in drafts]
    return {
        "sandbox_read": list(dict.fromkeys(folder for guess in guesses for folder in guess.sandbox_read)),
        "sandbox_write": list(dict.fromkeys(folder for guess in guesses for folder in guess.sandbox_write)),
    }


def gates_text(drafts: Sequence[Draft]) -> str:
    """Return a gates.yaml with the profile of each draft; without one, a profile that has no steps."""
    lines: list[str] = []
    for name, draft in drafts_by_profile(drafts).items():
        lines += [f"  {name}:", "    modes:"]
        explained: set[str] = set()
        for mode in Mode:
            lines += _left_out_lines([one for one in draft.left_out if mode in one.modes])
            steps = draft.steps(mode)
            lines += [f"      {mode}:" if steps else f"      {mode}: []"]
            lines += _step_lines(steps, draft.found.guess.reasons, explained)
        lines += _parser_lines(draft.profile.parsers)
    if not drafts:
        lines = ["  default:", "    modes:", *(f"      {mode}: []" for mode in Mode)]
    return GATES_HEAD + "".join(f"{line}\n" for line in lines)


def agents_text() -> str:
    """Return an agents.yaml without settings."""
    return AGENTS_HEAD


def line_of(step: Step) -> str:
    """Return the line of gates.yaml that adds a step."""
    values: dict[str, Json] = {"name": step.name, "cmd": list(step.cmd)}
    if step.cwd:
        values["cwd"] = step.cwd
    if step.env:
        values["env"] = dict(step.env)
    return f"- {{{', '.join(f'{key}: {_flow(value)}' for key, value in values.items())}}}"


def _setup_lines(commands: Sequence[SetupCommand]) -> Iterator[str]:
    if not commands:
        return
    yield f"  # {WHY_SETUP}"
    if any(one.network == "host" for one in commands):
        yield from (f"  # {line}" for line in WHY_NETWORK)
    yield "  setup:"
    for command in commands:
        values: dict[str, Json] = {"cmd": list(command.cmd)}
        if command.inputs:
            values["inputs"] = list(command.inputs)
        if command.network:
            values["network"] = command.network
        first, *others = [f"{key}: {_flow(value)}" for key, value in values.items()]
        yield f"    - {first}"
        yield from (f"      {line}" for line in others)


def _left_out_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    for one in left_out:
        yield f"      # Left out: {one.why}"
        yield f"      # To require it, add: {line_of(one.step)}"


def _step_lines(steps: Sequence[Step], reasons: Mapping[str, str], explained: set[str]) -> Iterator[str]:
    for step in steps:
        why = reasons.get(step.name, "")
        if why and why not in explained:
            explained.add(why)
            yield f"        # {why}"
        yield f"        - name: {step.name}"
        yield f"          cmd: {_flow(list(step.cmd))}"
        if step.cwd:
            yield f"          cwd: {_flow(step.cwd)}"
        if step.env:
            yield f"          env: {_flow(dict(step.env))}"


def _parser_lines(parsers: Parsers) -> Iterator[str]:
    coverage, tests = parsers.coverage, parsers.tests
    if coverage or tests:
        yield "    # The reports that prove how many tests ran; a mode that leaves none fails."
        yield "    parsers:"
    if coverage:
        yield f"      coverage: {{type: {coverage.type}, path: {_flow(coverage.path)}, {_modes(coverage.modes)}}}"
    if tests:
        place = f"path: {_flow(tests.path)}" if tests.path else f"step: {tests.step}"
        yield f"      tests: {{type: {tests.type}, {place}, {_modes(tests.modes)}}}"


def _modes(modes: Sequence[Mode]) -> str:
    return f"modes: [{', '.join(modes)}]"


def _flow(value: Json) -> str:
    # YAML, unlike JSON, has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False)
