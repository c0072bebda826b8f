"""Catalogue of coding agents: rows of AOP, of the repository and of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.agents.vendors.launch import AgentSession, Launch, launch_of
from aop.core.errors import InvalidConfiguration, Json
from aop.core.text.yaml import dump_yaml
from aop.kernel.config.agents import Agents, ProviderRow

TOKEN_VARIABLE = "AOP_TOKEN"


class Vendor(Struct, frozen=True, kw_only=True):
    """One coding agent, by its name."""

    provider: str
    row: ProviderRow

    @property
    def program(self) -> str:
        """Return the name of its program."""
        return (self.row.command or self.row.acp)[0]

    @property
    def speaks_acp(self) -> bool:
        """Tell whether it is driven over the Agent Client Protocol."""
        return bool(self.row.acp)

    @property
    def version(self) -> str:
        """Return the version that AOP installs, and is tested with; empty if AOP installs none."""
        return self.row.package.version if self.row.package else ""

    @property
    def logins(self) -> tuple[str, ...]:
        """Return the files in the user's home that its own log-in creates."""
        return self.row.login.files if self.row.login else ()

    def launch(self, session: AgentSession) -> Launch:
        """Return how it is started for one session."""
        return launch_of(self.row, session)


def vendors_of(agents: Agents | None, environ: Mapping[str, str]) -> dict[str, Vendor]:
    """Return all coding agents by name: a row of the user replaces one of the repository, and that one of AOP's.

    Raises: InvalidConfiguration for a row of the user.
    """
    rows = {**shipped_rows(), **(agents.providers if agents else {}), **_user_rows(environ)}
    return {name: Vendor(provider=name, row=row) for name, row in rows.items()}


@cache
def shipped_rows() -> Mapping[str, ProviderRow]:
    """Return the rows that AOP ships."""
    # Reading YAML takes its time: only where an agent is started or listed.
    from aop.kernel.config.loader import ConfigText, load_providers

    shipped = Path(__file__).with_name("shipped.yaml")
    return load_providers(ConfigText(source=shipped.name, content=shipped.read_bytes()))


def row_text(vendor: Vendor) -> str:
    """Return the row of an agent as an agents.yaml."""
    return dump_yaml({"version": 1, "providers": {vendor.provider: _said(msgspec.to_builtins(vendor.row))}})


def _said(value: Json) -> Json:
    """Return a value without the keys that say nothing."""
    if isinstance(value, Mapping):
        return {name: _said(each) for name, each in value.items() if each not in (None, (), [], {}, False)}
    return [_said(each) for each in value] if isinstance(value, (list, tuple)) else value


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's own agents.yaml; it may not exist."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or "/", ".config")
    return Path(config) / "aop" / "agents.yaml"


def _user_rows(environ: Mapping[str, str]) -> Mapping[str, ProviderRow]:
    from aop.kernel.config.loader import ConfigText, load_providers

    path = user_file(environ)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidConfiguration(
            f"`{path}` cannot be read: {error.strerror}.", file=str(path), line=1, key=""
        ) from error
    return load_providers(ConfigText(source=str(path), content=content))
