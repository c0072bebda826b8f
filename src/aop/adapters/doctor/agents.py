"""Agent check: the installed coding agents; a custom command works without any."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.agents.vendors.catalogue import Vendor, vendors_of
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.doctor.checks import Check, fine
from aop.kernel.config.agents import Agents


def check_agents(agents: Agents | None, environ: Mapping[str, str]) -> Check:
    """Name the installed agents and those without a key; `aop agents` says more."""
    installed = [vendor for vendor in vendors_of(agents, environ).values() if installed_program(vendor, environ)]
    names = [vendor.provider + _key_text(vendor, environ) for vendor in installed]
    return fine("agents", ", ".join(names) or "none installed; install one with: aop agents install")


def _key_text(vendor: Vendor, environ: Mapping[str, str]) -> str:
    variable = vendor.row.key_variable
    return "" if variable is None or environ.get(variable) else " (no key)"
