"""Page links: the pages of a repository in a person's browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.machine.background import output_of_command
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Fault


class PageLink(Struct, frozen=True, kw_only=True):
    """A link that lets one person in once, and the process that serves it."""

    url: str
    pid: int
    repository: str


def link_in(root: Path, environ: Mapping[str, str], *, to: str = "/") -> PageLink:
    """Make a link to the pages of a repository, as `aop web --print` does. Raises: CallRefused."""
    words = ["web", "--print", "--json", "--to", to, "--repo", str(root)]
    try:
        answer = json.loads(output_of_command(words, environ))
    except ValueError as error:
        raise Fault("`aop web` gave no link.") from error
    if not answer["ok"]:
        raise CallRefused(answer["error"], {})
    return PageLink(**answer["data"])


def show(link: PageLink, terminal: Terminal) -> bool:
    """Open a link in the browser; if there is none, say it, and return False."""
    import webbrowser

    if webbrowser.open(link.url):
        return True
    terminal.say("No browser could be opened. Open this link yourself; it works once, within two minutes:")
    return False
