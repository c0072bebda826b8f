"""Home folders: private home and temporary folders of a step outside bubblewrap."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.own_folders import held_folder
from aop.adapters.processes.toolchains import is_within


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Make a folder with `home` and `tmp`, and remove it afterwards."""
    with held_folder(parent) as folder:
        for name in ("home", "tmp"):
            (folder / name).mkdir(mode=0o700)
        yield folder


def link_user_places(own_home: Path, home: str, places: Iterable[str]) -> None:
    """Link those places that lie in the user's home into the private home."""
    linked: list[str] = []
    for place in sorted(places):
        if is_within(place, home) and place != home and not is_within(place, *linked):
            link = own_home / os.path.relpath(place, home)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.symlink_to(place)
            linked.append(place)
