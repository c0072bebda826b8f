"""The results of one run: as a table for people, as JSON for the next run, and two of them side by side."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.measurements import Failed, Measurement, Outcome

FOLDER = Path(__file__).with_name("results")
DOCUMENT = FOLDER.parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


class Results(Struct, frozen=True, kw_only=True):
    """What one run of the bench found."""

    commit: str
    """With `-dirty` where the working tree differs from it."""
    machine: str
    is_quick: bool
    is_partial: bool = True
    """Whether this is less than every case: some were left out or failed, or the run has not ended."""
    measurements: tuple[Measurement, ...] = ()
    failed: Mapping[str, str] = {}
    """The error of each case that failed."""
    skipped: Mapping[str, str] = {}
    """Why a case, or a part of it, was not measured."""
    load: tuple[float, float] = (0.0, 0.0)
    """The load of the machine before and after: what is far over its cores makes every time longer."""


def commit_here() -> str:
    """Return the commit that is measured."""
    described = _output(
        "git", "-C", str(FOLDER.parent), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"
    )
    return described.strip()


def machine_here() -> str:
    """Return what the figures depend on, in a line."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {_output('git', '--version').strip()}"


def load_here() -> float:
    """Return how many processes wanted a core in the last minute."""
    return round(os.getloadavg()[0], 1)


def added(results: Results, case: str, outcome: Outcome) -> Results:
    """Return the results with one more outcome of a case."""
    if isinstance(outcome, Measurement):
        return msgspec.structs.replace(results, measurements=(*results.measurements, outcome))
    if isinstance(outcome, Failed):
        return msgspec.structs.replace(results, failed={**results.failed, case: outcome.error})
    return msgspec.structs.replace(results, skipped={**results.skipped, case: outcome.reason})


def line_of(outcome: Outcome) -> str:
    """Return an outcome as it is shown while the bench runs."""
    if isinstance(outcome, Measurement):
        floor = "" if outcome.floor is None else f" ({outcome.floor_name}: {_amount(outcome.floor, outcome.unit)})"
        return f"{outcome.name}: {_amount(outcome.ours, outcome.unit)}{floor}"
    return f"FAILED: {outcome.error}" if isinstance(outcome, Failed) else f"SKIPPED: {outcome.reason}"


def path_of(results: Results, folder: Path) -> Path:
    """Return the file of some results. Less than a full run has a name of its own."""
    less = "-quick" * results.is_quick + "-partial" * results.is_partial
    return folder / f"{results.commit}{less}.json"


def write(results: Results, folder: Path) -> None:
    """Write results, in place of those before: a run that is killed later has left them whole."""
    folder.mkdir(exist_ok=True)
    path = path_of(results, folder)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    beside.replace(path)


def write_whole(results: Results, folder: Path) -> Results:
    """Write the results of a run that has ended with every case; the file of the unfinished run goes."""
    whole = msgspec.structs.replace(results, is_partial=False)
    write(whole, folder)
    path_of(results, folder).unlink(missing_ok=True)
    return whole


def read(path: Path) -> Results:
    """Read the results of an earlier run."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def heading(results: Results) -> str:
    """Return what was measured, where and beside which load, in a line."""
    return f"{results.commit}, {results.machine}, load {results.load[0]} before, {results.load[1]} after"


def with_figures(document: str, results: Results) -> str:
    """Return a document with the table of a whole run between its two marks."""
    if results.is_partial or results.is_quick or results.commit.endswith("-dirty"):
        raise ValueError(f"These are not the results of a whole run of one commit: {heading(results)}.")
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    skipped = "".join(f"Not measured: `{name}`. {reason}\n\n" for name, reason in results.skipped.items())
    return f"{before}{BEGIN}{heading(results)}\n\n{skipped}{table(results.measurements)}{END}{after}"


def table(measurements: Sequence[Measurement], *, is_judged: bool = True) -> str:
    """Return the measurements as a Markdown table; whether budgets were kept is its last column."""
    head = ("measurement", "ours", "floor", "the floor is", "result", "budget", "")
    rows = [_row(each) for each in measurements]
    return _table(head, rows if is_judged else [(*row[:-1], "") for row in rows])


def summary(results: Results) -> str:
    """Return which budgets were missed, and which cases failed or were skipped."""
    lines = ["Budgets are not judged with --quick."] if results.is_quick else list(_missed(results.measurements))
    lines += [f"SKIPPED: {name}: {reason}" for name, reason in results.skipped.items()]
    for name, error in results.failed.items():
        first, *rest = error.splitlines()
        lines.append(f"FAILED: {name}: {' '.join([first, *rest[-1:]])}")
    return "".join(f"{line}\n" for line in lines)


def _missed(measurements: Sequence[Measurement]) -> Iterator[str]:
    judged = [each for each in measurements if each.is_within is not None]
    missed = [each for each in judged if not each.is_within]
    yield f"{len(missed)} of {len(judged)} budgets were missed{':' if missed else '.'}"
    for each in missed:
        _name, ours, _floor, _floor_name, result, limit, _verdict = _row(each)
        yield f"- {each.name}: {result or ours}, budget {limit}"


def comparison(old: Results, new: Results) -> str:
    """Return what became of each measurement that both runs have."""
    before = {each.name: each for each in old.measurements}
    both = [(before[each.name], each) for each in new.measurements if each.name in before]
    head = ("measurement", old.commit, new.commit, "ours", "result", "result")
    return _table(head, [_change(earlier, later) for earlier, later in both])


def _row(each: Measurement) -> tuple[str, ...]:
    verdict = {None: "", True: "kept", False: "MISSED"}[each.is_within]
    budget = each.budget
    unit = "" if budget is None or budget.kind in ("times", "share") else f" {each.unit}"
    limit = "" if budget is None else f"{budget.kind} {budget.limit:g}{unit}"
    floor = "" if each.floor is None else _amount(each.floor, each.unit)
    return (each.name, _amount(each.ours, each.unit), floor, each.floor_name, _result(each), limit, verdict)


def _change(earlier: Measurement, later: Measurement) -> tuple[str, ...]:
    change = f"{(later.ours / earlier.ours - 1) * 100:+.0f} %" if earlier.ours else ""
    ours = (_amount(earlier.ours, earlier.unit), _amount(later.ours, later.unit))
    return (later.name, *ours, change, _result(earlier), _result(later))


def _result(each: Measurement) -> str:
    kind = each.budget.kind if each.budget else ""
    times = f"{each.result:.2f} x"
    return {"times": times, "share": times, "over": f"{each.result:+.1f} {each.unit}"}.get(kind, "")


def _amount(value: float, unit: str) -> str:
    return f"{value:.2f} x" if unit == "x" else f"{value:.1f} {unit}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"{line}\n" for line in _drawn(lines, widths))


def _drawn(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for line in lines:
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"


def _output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
