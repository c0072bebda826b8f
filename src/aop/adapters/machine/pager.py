"""Pager: shows a long text at the terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

DEFAULT_PAGER = "less -FRX"


def page(text: str, environ: Mapping[str, str]) -> bool:
    """Show the text in `$PAGER` and wait for its end; tell whether there is a pager."""
    words = shlex.split(environ.get("PAGER", DEFAULT_PAGER))
    if words in ([], ["cat"]):
        return False
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, env=dict(environ))
    except OSError:
        return False
    # Ctrl-C belongs to the pager, which must not lose its parent.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            process.communicate(text.encode(errors="backslashreplace"))
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
    return True
