"""Agent check: the installed coding agents; a custom command works without any."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.agents.logins.vendor_logins import login_state
from aop.adapters.agents.vendors.catalogue import Vendor, vendors_of
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.reporting.doctor.checks import Check, fine, warning
from aop.kernel.config.agents import Agents


def check_agents(agents: Agents | None, environ: Mapping[str, str]) -> Check:
    """Name the installed agents, those without a key, and those that use their log-in; `aop agents` says more."""
    installed = [vendor for vendor in vendors_of(agents, environ).values() if installed_program(vendor, environ)]
    with_login = [vendor for vendor in installed if agents is not None and agents.uses_login(vendor.provider)]
    for vendor in with_login:
        problem = login_state(vendor, environ).problem
        if problem:
            return warning("agents", problem, f"Log in with: aop agents login {vendor.provider}")
    names = [
        vendor.provider + (" (log-in)" if vendor in with_login else _key_text(vendor, environ)) for vendor in installed
    ]
    return fine("agents", ", ".join(names) or "none installed; install one with: aop agents install")


def _key_text(vendor: Vendor, environ: Mapping[str, str]) -> str:
    variable = vendor.row.key_variable
    return "" if variable is None or environ.get(variable) else " (no key)"
