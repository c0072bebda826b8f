"""Lead process: a supervisor in a clone of the worker, ending with the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

END_SECONDS = 20.0
LOG = ".aop/supervisor.log"
_LAST_BYTES = 2000
_MESSAGE = "aop: "


class LeadProcess:
    """Leads the repository of a clone. Its input is a pipe that ends with the worker, however that ends."""

    def __init__(self, root: Path, environ: Mapping[str, str], lock: int) -> None:
        """Start it; it inherits the lock of the clone."""
        self._log = root / LOG
        self._log.parent.mkdir(exist_ok=True, mode=0o700)
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "aop.cli.main", "resume", "--repo", str(root)],
                cwd=root,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(lock,),
            )
        finally:
            os.close(output)
            os.close(lock)

    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.poll()

    def last_words(self) -> str:
        """Return why it ended: its last message, or else the last line that it printed."""
        with suppress(OSError), self._log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LAST_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
            return next((line for line in reversed(lines) if line.startswith(_MESSAGE)), lines[-1] if lines else "")
        return ""

    def ask_to_end(self) -> None:
        """Ask it to end in order."""
        self._process.send_signal(signal.SIGTERM)

    def await_end(self) -> None:
        """Wait until it has ended; after some time it is killed, and the next leader settles what it did."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
