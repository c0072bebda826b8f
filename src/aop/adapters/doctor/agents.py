"""Agent check: the installed coding agents; a custom command works without any."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.agents.vendors.catalogue import VENDORS
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.doctor.checks import Check, fine


def check_agents(environ: Mapping[str, str]) -> Check:
    """Name the installed agents and those without a key; `aop agents` says more."""
    installed = [vendor for vendor in VENDORS.values() if installed_program(vendor, environ)]
    names = [vendor.provider + ("" if environ.get(vendor.key_variable) else " (no key)") for vendor in installed]
    return fine("agents", ", ".join(names) or "none installed; install one with: aop agents install")
