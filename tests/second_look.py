"""Runs the tests that failed last three times more, with nothing beside them; exits with 0 if they pass each time.

A busy machine can break a test that waits. A test that breaks alone, or one of many, is broken. How often a test was
unsteady is counted in the user's cache: the third time it fails here too, until somebody repairs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FAILED_LAST = Path(".pytest_cache/v/cache/lastfailed")
AT_MOST = 3
TIMES = 3
TOO_OFTEN = 3


def main() -> int:
    failed = sorted(json.loads(FAILED_LAST.read_text())) if FAILED_LAST.exists() else []
    if not 0 < len(failed) <= AT_MOST:
        print(f"{len(failed)} tests failed; a second look is for 1 to {AT_MOST}.")
        return 1
    if not all(have_passed(failed) for _ in range(TIMES)):
        return 1
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aop-ci" / "unsteady.tsv"
    counts = count_unsteady(kept, failed)
    for test, count in counts.items():
        print(f"Unsteady, to be repaired: {test} failed once, then passed {TIMES} times alone ({count} times so far).")
    if max(counts.values()) < TOO_OFTEN:
        return 0
    print(f"Unsteady {TOO_OFTEN} times is broken. Repair it, then remove its line from {kept}.")
    return 1


def have_passed(tests: Sequence[str]) -> bool:
    """Run tests with nothing beside them; a test that is skipped has not passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-p", "no:cacheprovider", "-m", "", "--junit-xml", str(report)]
        again = subprocess.run([sys.executable, "-m", "pytest", *words, *tests], check=False)
        return again.returncode == 0 and "<skipped" not in report.read_text(encoding="utf-8")


def count_unsteady(kept: Path, tests: list[str]) -> dict[str, int]:
    """Add these tests to those that were unsteady on this machine; return how often each of them was."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    counts = {test: int(count) for count, _tab, test in (line.partition("\t") for line in lines)}
    counts |= {test: counts.get(test, 0) + 1 for test in tests}
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("".join(f"{count}\t{test}\n" for test, count in sorted(counts.items())), encoding="utf-8")
    return {test: counts[test] for test in tests}


if __name__ == "__main__":
    sys.exit(main())
