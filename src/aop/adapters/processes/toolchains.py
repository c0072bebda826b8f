"""Toolchains: the folders that programs on `PATH` need, such as interpreters.

A sandbox that hides them breaks ordinary gates and gets switched off. No name in a worktree is followed here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix")
"""The folders of the system, which every step sees."""

# Variables that name the root of a toolchain.
_ROOT_VARIABLES = (
    "ANDROID_HOME ANDROID_SDK_ROOT ASDF_DATA_DIR CONDA_PREFIX DOTNET_ROOT GOROOT GRADLE_HOME JAVA_HOME M2_HOME"
    " MAVEN_HOME MISE_DATA_DIR NVM_DIR PYENV_ROOT RBENV_ROOT RUSTUP_HOME SDKMAN_DIR VIRTUAL_ENV VOLTA_HOME"
).split()

# Folders in the home that hold interpreters and packages, and no secrets. They are always shown, because a virtual
# environment in the worktree may lead there. It is not followed itself, because an agent may have written it.
_STORES = (
    ".asdf/installs .jdks .local/lib .local/pipx/venvs .local/share/fnm .local/share/mise/installs"
    " .local/share/pipx .local/share/uv/python .local/share/uv/tools .nodenv/versions .nvm/versions .pyenv/versions"
    " .rbenv/versions .rustup .sdkman/candidates .volta/tools"
).split()
_TOOL_HOMES = {
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "PYENV_ROOT": ".pyenv",
    "RUSTUP_HOME": ".rustup",
    "VOLTA_HOME": ".volta",
}
_INSTALLATION_MARKS = ("lib", "lib64", "libexec", "pyvenv.cfg")


@lru_cache(maxsize=256)
def search_path(text: str, worktree: str) -> tuple[str, ...]:
    """Return the folders of a PATH that exist and that a step in the worktree cannot have written."""
    folders = [os.path.normpath(folder) for folder in text.split(":") if os.path.isabs(folder)]
    outside = [f for f in folders if not is_within(f, worktree) and not is_within(os.path.realpath(f), worktree)]
    return tuple(dict.fromkeys(filter(os.path.isdir, outside)))


def named_roots(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roots of toolchains that variables name."""
    return tuple(variables[name] for name in _ROOT_VARIABLES if os.path.isabs(variables.get(name, "")))


@lru_cache(maxsize=256)
def tool_roots(path: tuple[str, ...], named: tuple[str, ...], *, home: str, hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders and files that programs on `path` lead to, none that contains a `hidden` folder."""
    found = _ToolRoots([os.path.realpath(folder) for folder in (home, *hidden)], os.path.join(home, ".local"))
    for store in _STORES:
        found.add(os.path.join(home, store))
    for root in named:
        found.add(root)
    for folder in path:
        found.add_programs(folder)
    roots = found.roots
    return tuple(root for root in roots if not any(other != root and is_within(root, other) for other in roots))


class _ToolRoots:
    def __init__(self, hidden: Sequence[str], user_prefix: str) -> None:
        self.roots: list[str] = []
        self._seen = [*SYSTEM]
        self._hidden = hidden
        self._user_prefix = user_prefix

    def add(self, root: str) -> None:
        if os.path.exists(root) and not self._uncovers(root) and not self._is_seen(root):
            self.roots.append(root)
            self._seen += (root, os.path.realpath(root))

    def add_programs(self, folder: str) -> None:
        """Add a folder of programs, its installation, and the installations that its links lead to."""
        self.add(self._installation_of(folder))
        self.add(folder)
        self._add_base_of(os.path.dirname(folder))
        for program in () if is_within(os.path.realpath(folder), *SYSTEM) else _linked_programs(folder):
            self.add(self._installation_of(os.path.dirname(program)))
            self.add(program)

    def _add_base_of(self, environment: str) -> None:
        """Add the base installation of a Python virtual environment."""
        try:
            text = Path(environment, "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home" and os.path.isabs(value.strip()):
                self.add(self._installation_of(value.strip()))

    def _installation_of(self, folder: str) -> str:
        """Return the root of the installation around a folder of programs, or an empty text."""
        parent, name = os.path.split(folder)
        if name in ("shims", ".bin"):
            return parent
        is_checkout = os.path.lexists(os.path.join(parent, ".git"))
        if name not in ("bin", "sbin", "condabin") or is_checkout or parent == self._user_prefix:
            return ""
        return parent if any(os.path.exists(os.path.join(parent, mark)) for mark in _INSTALLATION_MARKS) else ""

    def _uncovers(self, root: str) -> bool:
        return any(is_within(folder, os.path.realpath(root)) for folder in self._hidden)

    def _is_seen(self, path: str) -> bool:
        return is_within(path, *self._seen) and is_within(os.path.realpath(path), *self._seen)


def is_within(path: str, *folders: str) -> bool:
    """Tell whether a path is one of the folders or below one, by name alone."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _linked_programs(folder: str) -> list[str]:
    try:
        return [os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        return []


def homes_of_tools(home: str) -> dict[str, str]:
    """Return the variables that lead version managers to the real home."""
    places = ((name, os.path.join(home, folder)) for name, folder in _TOOL_HOMES.items())
    return {name: place for name, place in places if os.path.isdir(place)}
