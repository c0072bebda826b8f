"""`make mutants`: takes out one control after the other, and sees that the tests which claim it fail.

First every named test runs once on the source as it is. Then each mutant is tried in a private copy, as many at a time
as there are cores. Exits with 1 when one survives, or when a row proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutants import ROOT, ROWS, Mutant, problems, read_mutants
from tests.mutants.private_copy import PrivateCopy
from tests.mutants.trial import Outcome

COPIES = ROOT / ".mutants"
KILLED, SURVIVED, ERROR = "killed", "survived", "error"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The end of one mutant."""

    area: str
    id: str
    breaks: str
    verdict: str
    why: str
    """The test that failed, or what went wrong."""
    seconds: float


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    everything = read_mutants(options.rows)
    names = {name for each in everything for name in (each.area, each.id, f"{each.area}/{each.id}")}
    if unknown := sorted(set(options.only) - names):
        print(f"There is no mutant or area {', '.join(unknown)}.", file=sys.stderr)
        return 2
    wanted = [
        each for each in everything if {each.area, each.id, f"{each.area}/{each.id}"} & set(options.only or names)
    ]
    if options.part:
        number, parts = map(int, options.part.split("/"))
        wanted = wanted[len(wanted) * (number - 1) // parts : len(wanted) * number // parts]
    began = time.monotonic()
    with _copies(options.workers) as copies:
        results = _tried(wanted, copies, seconds=options.timeout)
    _print_end(results, time.monotonic() - began, as_json=options.json)
    return 0 if all(each.verdict == KILLED for each in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="these mutants or areas only")
    parser.add_argument("--part", metavar="K/N", help="only the k-th of n parts of them")
    parser.add_argument("--rows", type=Path, default=ROWS, metavar="FOLDER", help="where the files of rows lie")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many at a time (one a core)")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for the tests of one mutant")
    parser.add_argument("--json", action="store_true", help="the results, for programs")
    return parser


@contextmanager
def _copies(count: int) -> Iterator[SimpleQueue[PrivateCopy]]:
    """Have this many private copies, in a folder of this process."""
    folder = COPIES / str(os.getpid())
    copies = [PrivateCopy(folder / str(number)) for number in range(count)]
    free = SimpleQueue[PrivateCopy]()
    for copy in copies:
        free.put(copy)
    try:
        yield free
    finally:
        for copy in copies:
            copy.remove()
        folder.rmdir()


def _tried(mutants: Sequence[Mutant], copies: SimpleQueue[PrivateCopy], *, seconds: float) -> list[Result]:
    """Return the end of each mutant; one whose row or whose tests are wrong before the mutation is not tried."""
    results, sound = list[Result](), list[Mutant]()
    for mutant in mutants:
        if wrong := list(problems(mutant)):
            results.append(_ended(mutant, ERROR, " ".join(wrong)))
        else:
            sound.append(mutant)
    with ThreadPoolExecutor(copies.qsize()) as pool:
        failing = _failing(sound, pool, copies, seconds=seconds)
        for mutant in sound:
            if wrong := [test for test in mutant.tests if test in failing]:
                results.append(_ended(mutant, ERROR, f"fails without the mutation: {wrong[0]}: {failing[wrong[0]]}"))
        broken = {result.id for result in results}
        waiting = [pool.submit(_try, mutant, copies, seconds=seconds) for mutant in sound if mutant.id not in broken]
        for number, done in enumerate(as_completed(waiting), start=1):
            result = done.result()
            results.append(result)
            _say(f"{number}/{len(waiting)} {result.verdict} {result.area}/{result.id} {result.seconds:.0f} s")
    return sorted(results, key=lambda result: (result.area, result.id))


def _failing(
    mutants: Sequence[Mutant], pool: ThreadPoolExecutor, copies: SimpleQueue[PrivateCopy], *, seconds: float
) -> dict[str, str]:
    """Return the named tests that do not pass on the source as it is; a file's tests run together."""
    files: dict[str, set[str]] = {}
    for test in {test for mutant in mutants for test in mutant.tests}:
        files.setdefault(test.partition("::")[0], set()).add(test)
    _say(f"{sum(map(len, files.values()))} tests on the source as it is")
    asked = {pool.submit(_outcome, sorted(tests), copies, seconds=seconds * 2): tests for tests in files.values()}
    failing: dict[str, str] = {}
    for number, done in enumerate(as_completed(asked), start=1):
        outcome = done.result()
        _say(f"{number}/{len(asked)} files of tests, without a mutation")
        if wrong := [*outcome.failed, *outcome.broken]:
            failing |= dict.fromkeys(asked[done], wrong[0])
        elif outcome.ran < len(asked[done]):
            failing |= dict.fromkeys(asked[done], "some of them did not run")
    return failing


def _try(mutant: Mutant, copies: SimpleQueue[PrivateCopy], *, seconds: float) -> Result:
    began = time.monotonic()
    outcome = _outcome(mutant.tests, copies, mutant=mutant, seconds=seconds)
    spent = time.monotonic() - began
    if outcome.broken:
        return _ended(mutant, ERROR, outcome.broken[0], spent)
    if outcome.failed:
        return _ended(mutant, KILLED, outcome.failed[0], spent)
    return _ended(mutant, SURVIVED, f"passed: {', '.join(mutant.tests)}", spent)


def _outcome(
    tests: Sequence[str], copies: SimpleQueue[PrivateCopy], *, mutant: Mutant | None = None, seconds: float
) -> Outcome:
    """Run tests in a copy that nothing else uses, with a mutation or without."""
    copy = copies.get()
    try:
        if mutant is None:
            return copy.outcome("aop", tests, seconds=seconds)
        with copy.mutated(mutant):
            return copy.outcome(mutant.module, tests, seconds=seconds)
    finally:
        copies.put(copy)


def _ended(mutant: Mutant, verdict: str, why: str, seconds: float = 0.0) -> Result:
    return Result(
        area=mutant.area, id=mutant.id, breaks=mutant.breaks, verdict=verdict, why=why, seconds=round(seconds, 1)
    )


def _print_end(results: Sequence[Result], seconds: float, *, as_json: bool) -> None:
    """Print the mutants that were not killed, and a table of the areas."""
    if as_json:
        print(json.dumps({"seconds": round(seconds), "mutants": [asdict(each) for each in results]}, indent=1))
        return
    for each in results:
        if each.verdict != KILLED:
            print(f"{each.verdict}: {each.area}/{each.id} ({each.breaks})\n    {each.why}")
    print(f"{'area':<16}{'mutants':>8}{'killed':>8}{'seconds':>9}")
    for area in dict.fromkeys(each.area for each in results):
        rows = [each for each in results if each.area == area]
        killed, spent = sum(each.verdict == KILLED for each in rows), sum(each.seconds for each in rows)
        print(f"{area:<16}{len(rows):>8}{killed:>8}{spent:>9.0f}")
    killed = sum(each.verdict == KILLED for each in results)
    print(f"{killed} of {len(results)} mutants killed in {seconds:.0f} s.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
