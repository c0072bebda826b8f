"""Runs the tests that failed last three times more, with nothing beside them; exits with 0 if they pass each time.

A busy machine can break a test that waits. A test that breaks alone, or one of many, is broken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED_LAST = Path(".pytest_cache/v/cache/lastfailed")
AT_MOST = 3
TIMES = 3


def main() -> int:
    failed = sorted(json.loads(FAILED_LAST.read_text())) if FAILED_LAST.exists() else []
    if not 0 < len(failed) <= AT_MOST:
        print(f"{len(failed)} tests failed; a second look is for 1 to {AT_MOST}.")
        return 1
    for _ in range(TIMES):
        again = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "", *failed], check=False
        )
        if again.returncode:
            return 1
    print(
        *(f"Unsteady, to be repaired: {test} failed once, then passed {TIMES} times alone." for test in failed),
        sep="\n",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
