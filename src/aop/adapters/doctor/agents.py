"""Looks for the coding agents that AOP can start; without any, a command of the user's can still do the work."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.agents.vendors.catalogue import VENDORS
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.doctor.checks import Check, fine


def check_agents(environ: Mapping[str, str]) -> Check:
    """Say which are installed, and which of them have a key; `aop agents` says more."""
    here = [vendor for vendor in VENDORS.values() if installed_program(vendor, environ)]
    told = [vendor.provider + ("" if environ.get(vendor.key_variable) else " (no key)") for vendor in here]
    return fine("agents", ", ".join(told) or "none is installed; `aop agents install` brings one")
