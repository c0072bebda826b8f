"""Configuration loader: three YAML texts, laid over the defaults and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidConfiguration, InvalidWorkspaceImplementation, Json, Refusal
from aop.core.text.json import MalformedText
from aop.core.text.key_paths import KeyPath
from aop.core.text.yaml import YamlText, parse_yaml
from aop.kernel.config import checks as flaws
from aop.kernel.config.agents import Agents, ProviderFile, ProviderRow
from aop.kernel.config.checks import Misfit
from aop.kernel.config.gates import Gates
from aop.kernel.config.in_force import Config, hash_of
from aop.kernel.config.policy import Policy
from aop.kernel.config.problems import key_text, locate

Model = TypeVar("Model", Policy, Gates, Agents, ProviderFile)


class ConfigText(Struct, frozen=True, kw_only=True):
    """One configuration file, unread."""

    source: str
    """Its name in messages, such as `main:agentic/orchestrator/policy.yaml`."""
    content: bytes


REMOVED_KEYS = {("supervisor", "lock_wait_timeout_seconds"): "`locks` says how long a lock is waited for"}
"""Keys of earlier versions, and why each has no effect: a file that still has one is read, with a warning."""

# What stands for a file that the user does not have.
_NOTHING = ConfigText(source="bundled", content=b"version: 1\n")


class ConfigTexts(Struct, frozen=True, kw_only=True):
    """The three files; one that is absent is None."""

    policy: ConfigText | None = None
    gates: ConfigText | None = None
    agents: ConfigText | None = None
    warnings: tuple[str, ...] = ()


def load_config(texts: ConfigTexts, bundled: ConfigTexts, *, base_branch: str | None = None) -> Config:
    """Return the user's files over the bundled ones. Raises: InvalidConfiguration, InvalidWorkspaceImplementation."""
    # `base_branch` is a default too: it counts where the user's policy names none.
    guessed: Json = {} if base_branch is None else {"worktree": {"base_branch": base_branch}}
    policy = _in_force(Policy, texts.policy or _NOTHING, lay_over(_defaults(bundled.policy), guessed))
    gates = _in_force(Gates, texts.gates or _NOTHING, _defaults(bundled.gates))
    agents = _in_force(Agents, texts.agents or _NOTHING, _defaults(bundled.agents))
    named = (("policy", texts.policy), ("gates", texts.gates), ("agents", texts.agents))
    return Config(
        policy=policy,
        gates=gates,
        agents=agents,
        hash=hash_of(policy, gates, agents),
        sources=tuple((name, (text or _NOTHING).source) for name, text in named),
        warnings=(*texts.warnings, *_warnings_about_removed_keys(texts.policy)),
    )


def load_providers(text: ConfigText) -> dict[str, ProviderRow]:
    """Return the rows of a file that has providers alone. Raises: InvalidConfiguration."""
    return _in_force(ProviderFile, text, {}).providers


def lay_over(defaults: Json, user: Json, path: KeyPath = ()) -> Json:
    """Return the user's value over the default one: objects merge, everything else is replaced. Raises: Misfit."""
    # A null would leave open whether a rule is off or forgotten.
    if user is None:
        raise Misfit("it has no value; leave the key out to get its default", *path)
    if isinstance(user, Mapping):
        below = defaults if isinstance(defaults, Mapping) else {}
        return {**below, **{key: lay_over(below.get(key), value, (*path, key)) for key, value in user.items()}}
    if isinstance(user, Sequence) and not isinstance(user, str):
        return [lay_over(None, item, (*path, index)) for index, item in enumerate(user)]
    return user


def base_branch_named_in(policy: ConfigText | None) -> str | None:
    """Return the `worktree.base_branch` of a policy, be the rest valid or not. Raises: InvalidConfiguration."""
    value = _parsed(policy).value if policy else None
    worktree = value.get("worktree") if isinstance(value, Mapping) else None
    branch = worktree.get("base_branch") if isinstance(worktree, Mapping) else None
    return branch if isinstance(branch, str) and not flaws.in_branch(branch) else None


def _defaults(bundled: ConfigText | None) -> Json:
    return parse_yaml((bundled or _NOTHING).content).value


def _in_force(model: type[Model], text: ConfigText, defaults: Json) -> Model:
    parsed = _parsed(text)
    try:
        effective = _without_removed_keys(lay_over(defaults, parsed.value))
    except Misfit as misfit:
        raise _refusal(text, misfit.path, parsed.line_of(misfit.path), str(misfit)) from misfit
    try:
        return msgspec.convert(effective, model)
    except msgspec.ValidationError as problem:
        path, reason = locate(problem, effective, model)
        raise _refusal(text, path, parsed.line_of(path), reason) from problem


def _warnings_about_removed_keys(policy: ConfigText | None) -> tuple[str, ...]:
    value = _parsed(policy).value if policy else None
    return tuple(
        f"`{section}.{key}` has no effect any longer, and can be deleted: {why}."
        for (section, key), why in REMOVED_KEYS.items()
        if isinstance(value, Mapping) and isinstance(below := value.get(section), Mapping) and key in below
    )


def _without_removed_keys(document: Json) -> Json:
    for section, removed in REMOVED_KEYS:
        if isinstance(document, Mapping) and isinstance(below := document.get(section), Mapping):
            document = {**document, section: {key: value for key, value in below.items() if key != removed}}
    return document


def _parsed(text: ConfigText) -> YamlText:
    try:
        parsed = parse_yaml(text.content)
    except MalformedText as problem:
        raise _refusal(text, (), problem.line or 1, problem.reason) from problem
    if not isinstance(parsed.value, Mapping):
        raise _refusal(text, (), 1, "it must hold keys and their values")
    if "version" not in parsed.value:
        raise _refusal(text, ("version",), 1, "it is missing")
    return parsed


def _refusal(text: ConfigText, path: KeyPath, line: int, reason: str) -> Refusal:
    kind = InvalidWorkspaceImplementation if path == ("implementation", "workspace") else InvalidConfiguration
    key = key_text(path)
    subject = f"`{key}`" if path else "the file"
    message = f"In `{text.source}`, line {line}, {subject} is refused: {reason}"
    return kind(message if message.endswith("?") else f"{message}.", file=text.source, line=line, key=key)
