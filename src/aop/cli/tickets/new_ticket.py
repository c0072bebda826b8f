"""`aop ticket new`: creates a ticket in LOCAL, to try tickets without a tracker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.adapters.files.user_files import read_text
from aop.adapters.tickets.setup.settings import LOCAL_FOLDER
from aop.adapters.tickets.systems.local.database import LocalAnswer
from aop.adapters.tickets.systems.local.server import Local
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, RemoteRejected, TicketSettingMissing
from aop.tickets.mission.descriptions import MAX_CHARS


def create_ticket(key: str, file: str | None, environ: Mapping[str, str], terminal: Terminal) -> int:
    """Create a ticket: the first line of the text is the summary, the rest the description.

    Raises: InvalidCliArgs, InputPathNotFound, TicketSettingMissing, RemoteRejected.
    """
    if not file:
        raise InvalidCliArgs("`aop ticket new` needs a text.", hint="Pass `--file FILE`, or `--file -` for stdin.")
    if not environ.get(LOCAL_FOLDER):
        raise TicketSettingMissing(f"Not set in the environment: `{LOCAL_FOLDER}`.", missing=[LOCAL_FOLDER])
    text = terminal.read_all() if file == "-" else read_text(Path(file))
    heading, _, description = text.strip().partition("\n")
    summary = heading.lstrip("# ").strip()
    if not summary or len(text) > MAX_CHARS:
        raise InvalidCliArgs(f"The text is empty, or longer than {MAX_CHARS} characters.")
    local = Local(Path(os.path.abspath(environ[LOCAL_FOLDER])), environ)
    try:
        made: Any = local.tickets.create(key, summary, description.strip())
    except LocalAnswer as error:
        raise RemoteRejected(f"LOCAL answered {error}.", hint="Choose another key.", key=key) from error
    data = {"key": key, "summary": made["summary"], "status": made["status"]}
    return terminal.result(data, f"{key}: {made['summary']} ({made['status']})")
