"""Own environment: the virtual environment of AOP, which projects do not see.

It is the project's environment as well, and stays visible, if it lies in the repository, or if the project is installed
in it for development (`pip install -e`). A Python that is not a virtual environment is the system's, and is shared.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit


def own_prefix() -> str:
    """Return the virtual environment that AOP runs in; empty if it runs in the system's Python."""
    return "" if sys.prefix == sys.base_prefix else os.path.normpath(sys.prefix)


def hidden_folders(project: Path) -> tuple[str, ...]:
    """Return AOP's own folders that processes of a project do not see: its environment and its code."""
    prefix, root, code = own_prefix(), Path(os.path.realpath(project)), Path(__file__).parents[3]
    shared = [root, Path(prefix)] if prefix and is_developed_in(prefix, root) else [root]
    own = [Path(prefix), code] if prefix else [code]
    return tuple(str(folder) for folder in own if not any(_is_below(folder, other) for other in shared))


def is_developed_in(prefix: str, root: Path) -> bool:
    """Tell whether an environment holds a package whose source in this folder is installed for development."""
    for note in Path(prefix).glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
        try:
            found = json.loads(note.read_bytes())
            place, is_editable = urlsplit(found["url"]), found["dir_info"]["editable"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if is_editable and place.scheme == "file" and _is_below(Path(unquote(place.path)), root):
            return True
    return False


def without_folders(environ: Mapping[str, str], hidden: tuple[str, ...]) -> dict[str, str]:
    """Return the variables without paths into hidden folders; a variable that names nothing else is dropped."""
    visible = {name: visible_paths(value, hidden) for name, value in environ.items()}
    return {name: value for name, value in visible.items() if value or not environ[name]}


@lru_cache(maxsize=256)
def visible_paths(text: str, hidden: tuple[str, ...]) -> str:
    """Return a list of paths, such as PATH, without those into hidden folders."""
    parts = text.split(os.pathsep)
    own = [part for part in parts if os.path.isabs(part) and any(_is_below(Path(part), Path(each)) for each in hidden)]
    return os.pathsep.join(part for part in parts if part not in own)


def _is_below(path: Path, folder: Path) -> bool:
    """Tell whether an absolute path is a folder or lies in it, by its name or where its links lead."""
    plain, real = os.path.normpath(path), os.path.realpath(path)
    return Path(plain).is_relative_to(folder) or Path(real).is_relative_to(os.path.realpath(folder))
