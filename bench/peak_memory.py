"""`python -P bench/peak_memory.py FILE WORD...`: `aop WORD...`, which writes its own peak of memory into a file."""

from __future__ import annotations

import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Return the most memory that this process has had.

    Not `ru_maxrss`: that begins with the peak of the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def main(file: Path) -> int:
    """Run `aop`, and write the peak when it has ended."""
    # Late: the module is imported by processes that measure only themselves, too.
    from aop.cli.main import main as aop

    code = aop()
    file.write_text(str(peak_megabytes()))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv.pop(1))))
