"""Locations of the configuration files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from aop.kernel.config import in_force as config

FOLDER = "agentic/orchestrator"

NAMES = ("policy", "gates", "agents")


@cache
def bundled_content(name: str) -> bytes:
    """Return a default file that AOP ships."""
    return (Path(config.__file__).with_name("defaults") / f"{name}.yaml").read_bytes()
