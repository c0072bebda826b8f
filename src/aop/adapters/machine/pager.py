"""Shows a long text in the pager of whoever sits at the terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

DEFAULT_PAGER = "less -FRX"


def page(text: str, environ: Mapping[str, str]) -> bool:
    """Hand the text to `$PAGER`, and wait until the person is done; tell whether there is one."""
    words = shlex.split(environ.get("PAGER", DEFAULT_PAGER))
    if words in ([], ["cat"]):
        return False
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, env=dict(environ))
    except OSError:
        return False
    # Ctrl-C means something to a pager; whoever started it must not go away below it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            process.communicate(text.encode(errors="backslashreplace"))
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
    return True
