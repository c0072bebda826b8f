"""Programs of coding agents: where they are installed on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.agents.vendors.catalogue import Vendor

FOLDER_VARIABLE = "AOP_AGENTS_HOME"


def agents_folder(environ: Mapping[str, str]) -> Path:
    """Return AOP's folder for installed agents; it may not exist."""
    named = environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    data = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "/", ".local", "share")
    return Path(data) / "aop" / "agents"


def own_program(vendor: Vendor, environ: Mapping[str, str]) -> Path:
    """Return the path of an agent's program in AOP's own installation."""
    return agents_folder(environ) / vendor.provider / "node_modules" / ".bin" / vendor.program


def installed_program(vendor: Vendor, environ: Mapping[str, str]) -> str | None:
    """Return the program of an agent: AOP's own installation first, then the one on the PATH."""
    own = own_program(vendor, environ)
    if os.access(own, os.X_OK):
        return str(own)
    return shutil.which(vendor.program, path=environ.get("PATH", ""))


def library_of(program: str) -> tuple[str, ...]:
    """Return the folders that a program needs beside itself: it is a link into a `node_modules`, as a rule."""
    parts = Path(os.path.realpath(program)).parts
    top = parts.index("node_modules") + 1 if "node_modules" in parts else len(parts) - 1
    return (str(Path(*parts[:top])), os.path.dirname(program))
