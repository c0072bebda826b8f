"""ACP families: the vendor behind a custom ACP agent, known by its program name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from aop.adapters.agents.vendors.catalogue import VENDORS, Vendor
from aop.kernel.config.agents import Provider

_KNOWN = {
    "gemini": Provider.GEMINI,
    "gemini-cli": Provider.GEMINI,
    "claude-agent-acp": Provider.CLAUDE,
    "claude-code-acp": Provider.CLAUDE,
}
"""Programs that take the address of their model from a variable. Codex over ACP takes it from its own files."""
_QUIET = {
    Provider.GEMINI: {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
    Provider.CLAUDE: {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
}
_STARTERS = ("node", "npx", "bunx", "python")
"""Launchers: the program is the next word."""


def family_of(argv: Sequence[str], environ: Mapping[str, str]) -> Vendor | None:
    """Return the vendor of an agent's model, for its meter; None if it is unknown or has no key."""
    names = [PurePosixPath(word).name.partition("@")[0] for word in argv if not word.startswith("-")]
    is_started = len(names) > 1 and names[0].startswith(_STARTERS)
    provider = _KNOWN.get(names[1] if is_started else names[0]) if names else None
    vendor = None if provider is None else VENDORS[provider]
    return vendor if vendor and environ.get(vendor.key_variable, "").strip() else None


def model_variables(vendor: Vendor, url: str, placeholder: str) -> dict[str, str]:
    """Return the environment that points an agent to its meter, with a placeholder key."""
    return {**_QUIET[vendor.provider], vendor.key_variable: placeholder, vendor.url_variable: url}
