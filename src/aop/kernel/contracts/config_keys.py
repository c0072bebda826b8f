"""Config keys: every key of the three files, with value, source and meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.core.text.yaml import dump_yaml, parse_yaml
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts
from aop.kernel.contracts.contract_files import document_schemas
from aop.kernel.contracts.schemas import Schema

FILES = ("policy", "gates", "agents")
DEFAULT = "default"
"""The source of a key that no file sets."""

ANY_NAME = "<name>"
_NAMES: Mapping[str, str] = {"profiles": "default", "targets": "team", "role_provider_overrides": "builder"}
"""A name for an example, by the key that holds the names."""
_EXAMPLES: Mapping[str, Json] = {
    "worktree.link": ["node_modules"],
    "worktree.copy": [".env.test"],
    "worktree.setup": [{"cmd": ["npm", "ci"], "inputs": ["package-lock.json"]}],
    "gates.required": [{"paths": ["src/billing"], "profile": "billing"}],
    "execution.sandbox_read": ["~/.cache/uv"],
    "execution.sandbox_write": ["~/.cache/uv"],
    "permitted_protected_paths": ["pyproject.toml"],
    "rbac": {"qa": ["repo.read_file", "gates.run"]},
}
_STEPS: Json = [{"name": "test", "cmd": ["pytest", "-q"]}]
_MOST_EXAMPLE_ITEMS = 2
_SEE = re.compile(r" See \[[^\]]*\]\([^)]*\)\.")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class ConfigKey(Struct, frozen=True, kw_only=True):
    """One key of a configuration file, as it is now."""

    key: str
    file: str
    """Its file below `agentic/orchestrator`."""
    value: Json
    """The value in force; None: not set."""
    source: str
    """The file that sets it, such as `main:agentic/orchestrator/policy.yaml`, or `default`."""
    default: Json
    """The value without any file; None: none."""
    type: str
    choices: tuple[Json, ...]
    """Every allowed value, if they are few."""
    description: str
    item_keys: dict[str, str]
    """The keys of each item of a list, with their meaning."""

    def example(self) -> str:
        """Return lines that set the key."""
        return dump_yaml(_nested(self.key.split("."), _example_value(self)))


def config_keys(config: Config, texts: ConfigTexts, bundled: ConfigTexts) -> tuple[ConfigKey, ...]:
    """Return every key; the texts are those that the configuration was read from."""
    schemas = document_schemas()
    found: list[ConfigKey] = []
    for name in FILES:
        text: ConfigText | None = getattr(texts, name)
        file = _File(
            name=f"{name}.yaml",
            source=text.source if text else DEFAULT,
            user=parse_yaml(text.content).value if text else {},
            defaults=parse_yaml(getattr(bundled, name).content).value,
        )
        found += _keys(schemas[name], (), msgspec.to_builtins(getattr(config, name)), file)
    return tuple(found)


class _File(Struct, frozen=True, kw_only=True):
    name: str
    source: str
    user: Json
    defaults: Json


def _keys(node: Schema, path: tuple[str, ...], value: Json, file: _File) -> Iterator[ConfigKey]:
    node = _not_null(node)
    below = node.get("additionalProperties")
    held = value if isinstance(value, Mapping) else {}
    if "properties" in node:
        for name, each in node["properties"].items():
            yield from _keys(each, (*path, name), held.get(name), file)
    elif isinstance(below, dict) and "properties" in _not_null(below):
        for name in held or (ANY_NAME,):
            yield from _keys(below, (*path, name), held.get(name), file)
    else:
        yield _key(node, path, value, file)


def _key(node: Schema, path: tuple[str, ...], value: Json, file: _File) -> ConfigKey:
    items = node.get("items", {})
    return ConfigKey(
        key=".".join(path),
        file=file.name,
        value=_without_none(value),
        source=file.source if _at(file.user, path) is not None else DEFAULT,
        default=node.get("default") if (bundled := _at(file.defaults, path)) is None else bundled,
        type=_type_text(node),
        choices=tuple(node.get("enum", items.get("enum", ()))),
        description=_plain(node.get("description", "")),
        item_keys={name: _plain(each["description"]) for name, each in items.get("properties", {}).items()},
    )


def _without_none(value: Json) -> Json:
    """Return a value without the keys of its items that are not set."""
    if isinstance(value, Mapping):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_none(each) for each in value]
    return value


def _not_null(node: Schema) -> Schema:
    """Return the schema of a value that may also be absent."""
    of_value = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
    if len(of_value) != 1:
        return node
    return {**of_value[0], **{name: each for name, each in node.items() if name != "anyOf"}}


def _at(document: Json, path: Sequence[str]) -> Json:
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def _type_text(node: Schema) -> str:
    kind: Any = node.get("type", "any")
    if kind == "array":
        items = node.get("items", {})
        return f"list of {_type_text(items)}s"
    if kind == "object":
        return "mapping"
    bounds = [f"{word} {node[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in node]
    return " ".join([str(kind), *bounds])


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", _SEE.sub("", text))


def _example_value(key: ConfigKey) -> Json:
    if (known := _EXAMPLES.get(key.key)) is not None:
        return known
    if isinstance(key.default, bool):
        return not key.default
    if key.type.startswith("list"):
        return _example_items(key)
    if other := [choice for choice in key.choices if choice != key.default]:
        return other[0]
    guesses: Mapping[str, Json] = {"boolean": True, "integer": 1, "number": 1, "mapping": {"NAME": 1}}
    given = key.value if key.value is not None else key.default
    return given if given not in (None, "", {}) else guesses.get(key.type.split()[0], "TEXT")


def _example_items(key: ConfigKey) -> Json:
    items = key.value or key.default or key.choices[:1] or (_STEPS if key.item_keys else ["TEXT"])
    return list(items)[:_MOST_EXAMPLE_ITEMS] if isinstance(items, (list, tuple)) else items


def _nested(path: Sequence[str], value: Json) -> Json:
    for index in range(len(path) - 1, -1, -1):
        name = path[index]
        value = {_NAMES.get(path[index - 1], "NAME") if name == ANY_NAME else name: value}
    return value
