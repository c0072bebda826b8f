"""Runs the stages of CI, and the slices of `make nightly`, that `stages.toml` lists.

A stage that was green for exactly these inputs on this machine is not run again: its result belongs to the inputs, as a
gate's evidence belongs to a tree. One such stage runs all the same each time, so that a wrong memory is noticed.
`CI_FRESH=1` runs all of them.

    python3 .ci/stages.py ci                    what `.ci/run` does
    python3 .ci/stages.py ci --only slow        one stage, unless it is green for these inputs
    python3 .ci/stages.py nightly               every slice that is not green for these inputs, the oldest first
    python3 .ci/stages.py nightly --minutes 30  the same, for about half an hour
    python3 .ci/stages.py list [--json]         every stage and slice, and when it was last green

Needs nothing but Python 3.11: it makes the environment of everything else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parents[1]
SLICE_SECONDS = 300
LAST_LINES = 15
SUMMARY = re.compile(rb"\d+ passed|^Unsteady|^coverage \d|^Python 3|missed|^Left out")
EXPLAINS = re.compile(r"^(FAILED|ERROR) |\d+ (passed|failed)|^make: |: error: ")
DETAILS = re.compile(r"^(E  |____|>)|Error|assert")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command, and when it has to run."""

    name: str
    run: str
    needs: tuple[str, ...] = ()
    """Programs without which the stage is left out; alternatives are separated by `|`."""
    every_time: bool = False
    beside_next: bool = False
    """Runs in the background while the next stage runs."""
    second_look: bool = False
    """Up to three tests that failed may pass on their own: a busy machine can break a test that waits."""
    measured_for: str = ""
    """Until that stage is green, this one runs with `COVER=1` and is not skipped."""
    parts: int = 1
    part: int = 1

    @property
    def title(self) -> str:
        return self.name if self.parts == 1 else f"{self.name}-{self.part}-of-{self.parts}"

    @property
    def command(self) -> str:
        return self.run.replace("{part}", f"{self.part}/{self.parts}")

    @property
    def missing(self) -> str:
        """Return the programs that the stage needs and this machine lacks."""
        return ", ".join(each for each in self.needs if not any(map(_has, each.split("|"))))


@dataclass
class Memory:
    """When each stage was last green on this machine, and for which inputs."""

    path: Path
    rows: dict[str, dict[str, str | int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Memory:
        try:
            return cls(path, json.loads(path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return cls(path)

    def green_since(self, stage: Stage, inputs: str | None) -> str | None:
        row = self.rows.get(stage.title, {})
        return str(row["green"]) if inputs and row.get("inputs") == inputs and "green" in row else None

    def last_tried(self, stage: Stage) -> str:
        return str(self.rows.get(stage.title, {}).get("tried", ""))

    def keep(self, stage: Stage, inputs: str | None, *, is_green: bool, seconds: int) -> None:
        """Store the end of a stage; without inputs, only that it was tried."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        row = self.rows.setdefault(stage.title, {})
        if is_green:
            row |= {"tried": now, "seconds": seconds}
            # The first time counts: "green since" says how old the proof is.
            row |= {"inputs": inputs, "green": now} if inputs and row.get("inputs") != inputs else {}
        else:
            # What failed stays the oldest, and so is tried next.
            row.pop("inputs", None)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(self.rows, indent=1), encoding="utf-8")
        beside.replace(self.path)


class Failed(Exception):
    """A stage that has to be green is not."""


@dataclass(frozen=True)
class Run:
    """One run of this program."""

    stages: tuple[Stage, ...]
    slices: tuple[Stage, ...]
    memory: Memory
    inputs: str | None
    logs: Path
    environment: Mapping[str, str]

    def ci(self, *, is_fresh: bool) -> None:
        """Run every stage that has to run, then the slice of the night that was tried longest ago."""
        began = time.monotonic()
        forced = None if is_fresh else self._forced()
        background: list[tuple[Stage, subprocess.Popen[bytes], float]] = []
        left_out = []
        try:
            for stage in self.stages:
                is_measured = self._is_measured(stage)
                since = self.memory.green_since(stage, self.inputs)
                if stage.missing:
                    left_out.append(f"{stage.title} ({stage.missing} missing)")
                elif since and not (is_fresh or stage.every_time or is_measured or stage == forced):
                    print(f"== {stage.title}: green for these inputs since {since}", flush=True)
                elif stage.beside_next:
                    background.append((stage, self._started(stage, is_measured=False), time.monotonic()))
                else:
                    self._run(stage, is_measured=is_measured, note=" (green; tried again)" if stage == forced else "")
                    while background:
                        self._ended(*background.pop())
        finally:
            for _, process, _ in background:
                _end(process)
        self._oldest_slice()
        print(f"== verdict\nGreen after {_minutes(time.monotonic() - began)}.")
        print(f"Left out: {', '.join(left_out) or 'nothing'}; the rest of `make nightly`.")

    def nightly(self, *, minutes: float | None) -> None:
        """Run the slices that are not green for these inputs, the one that was tried longest ago first."""
        began, failed = time.monotonic(), []
        due = [each for each in self._by_age() if not self.memory.green_since(each, self.inputs)]
        for each in due:
            if minutes is not None and time.monotonic() - began > minutes * 60:
                break
            try:
                self._run(each)
            except Failed:
                failed.append(each.title)
        lacking = [f"{each.title} ({each.missing} missing)" for each in self.slices if each.missing]
        green = [each for each in self.slices if self.memory.green_since(each, self.inputs)]
        print(f"== {len(green)} of {len(self.slices)} slices are green for these inputs.")
        if lacking:
            print(f"Left out: {', '.join(lacking)}.")
        if failed:
            raise Failed(f"failed: {', '.join(failed)}")

    def listed(self) -> list[dict[str, object]]:
        return [
            {
                "name": each.title,
                "kind": "stage" if each in self.stages else "slice",
                "command": each.command,
                "green_for_these_inputs_since": self.memory.green_since(each, self.inputs),
                "last_tried": self.memory.last_tried(each) or None,
                "seconds": self.memory.rows.get(each.title, {}).get("seconds"),
                "missing": each.missing or None,
            }
            for each in (*self.stages, *self.slices)
        ]

    def _forced(self) -> Stage | None:
        """Return the stage that runs although it is green: the one that was tried longest ago."""
        judges = {each.measured_for for each in self.stages}
        green = [
            each
            for each in self.stages
            if self.memory.green_since(each, self.inputs)
            and not (each.every_time or each.missing or each.name in judges)
        ]
        return min(green, key=self.memory.last_tried, default=None)

    def _is_measured(self, stage: Stage) -> bool:
        judge = next((each for each in self.stages if each.name == stage.measured_for), None)
        return judge is not None and not self.memory.green_since(judge, self.inputs)

    def _by_age(self) -> list[Stage]:
        return sorted((each for each in self.slices if not each.missing), key=self.memory.last_tried)

    def _oldest_slice(self) -> None:
        for each in self._by_age()[:1]:
            last = self.memory.last_tried(each)
            self._run(each, note=f" (a slice of the night, last tried {last or 'never'})", seconds=SLICE_SECONDS)

    def _run(self, stage: Stage, *, is_measured: bool = False, note: str = "", seconds: float | None = None) -> None:
        began = time.monotonic()
        print(f"== {stage.title}{note}", flush=True)
        process = self._started(stage, is_measured=is_measured)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.memory.keep(stage, None, is_green=True, seconds=int(time.monotonic() - began))
            print(f"   not at its end after {seconds:.0f} s; `make nightly` runs the whole of it", flush=True)
            return
        finally:
            _end(process)
        self._ended(stage, process, began)

    def _started(self, stage: Stage, *, is_measured: bool) -> subprocess.Popen[bytes]:
        line = f"set -e\n{stage.command}"
        extra = {"COVER": "1"} if is_measured else {}
        with (self.logs / f"{stage.title}.log").open("wb") as log:
            return subprocess.Popen(
                ["bash", "-c", line],
                cwd=ROOT,
                env={**self.environment, **extra},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _ended(self, stage: Stage, process: subprocess.Popen[bytes], began: float) -> None:
        """Wait for a stage; remember and print its end."""
        code = process.wait()
        log = self.logs / f"{stage.title}.log"
        if code and stage.second_look:
            with log.open("ab") as more:
                code = subprocess.run(
                    ["make", "--no-print-directory", "again"], cwd=ROOT, env=self.environment, stdout=more,
                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
                ).returncode  # fmt: skip
        seconds = int(time.monotonic() - began)
        self.memory.keep(stage, self.inputs, is_green=not code, seconds=seconds)
        if code:
            print(_explained(stage, log), flush=True)
            raise Failed(stage.title)
        for line in [line for line in log.read_bytes().splitlines() if SUMMARY.search(line)][-8:]:
            print(line.decode(errors="replace"))
        print(f"   {stage.title}: {seconds} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    # Ended by a signal, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run = _prepared()
    if options.only:
        chosen = [each for each in (*run.stages, *run.slices) if each.name in options.only]
        run = replace(run, stages=tuple(replace(each, beside_next=False) for each in chosen), slices=())
    try:
        if options.what == "ci":
            run.ci(is_fresh=os.environ.get("CI_FRESH") == "1")
        elif options.what == "nightly":
            run.nightly(minutes=options.minutes)
        else:
            _print_list(run.listed(), as_json=options.json)
    except Failed as failed:
        print(f"FAILED: {failed}", flush=True)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=".ci/stages.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("ci", "nightly", "list"))
    parser.add_argument("--only", action="append", metavar="NAME", help="with ci: this stage or slice; may be repeated")
    parser.add_argument("--minutes", type=float, help="begin no slice of the night after so many minutes")
    parser.add_argument("--json", action="store_true", help="the list, for programs")
    return parser


def _prepared() -> Run:
    read = tomllib.loads(Path(__file__).with_name("stages.toml").read_text(encoding="utf-8"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aop-ci"
    logs = cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    # make passes its own options to each make below it, and with them the jobs that it may start.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    return Run(
        stages=tuple(_stages(read["stage"])),
        slices=tuple(_stages(read["slice"])),
        memory=Memory.read(cache / "green.json"),
        inputs=_inputs(read["inputs"], read["versions"]),
        logs=logs,
        # Where `make real` has its programs, and `make again` looks for them.
        environment={**environment, "REAL": str(cache / "real")},
    )


def _stages(rows: Sequence[Mapping[str, object]]) -> Iterator[Stage]:
    for row in rows:
        stage = Stage(**{**row, "needs": tuple(row.get("needs", ()))})  # type: ignore[arg-type]  # unknown keys fail here
        yield from (replace(stage, part=part) for part in range(1, stage.parts + 1))


def _inputs(paths: Sequence[str], versions: Sequence[str]) -> str | None:
    """Return the key of what the stages depend on; None where the working tree differs from its commit."""
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", *paths], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    if changed:
        return None
    tree = subprocess.run(
        ["git", "ls-tree", "-r", "HEAD", "--", *paths], cwd=ROOT, capture_output=True, check=True
    ).stdout
    digest = hashlib.sha256(tree)
    for command in versions:
        answer = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=False)
        digest.update(answer.stdout)
    return digest.hexdigest()


def _has(program: str) -> bool:
    return which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a stage that is still running, with everything that it started in its session."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def _explained(stage: Stage, log: Path) -> str:
    """Return the lines of a log that say what failed; the whole of it is in the file."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    begins = next((at for at, line in enumerate(lines) if "= FAILURES =" in line), len(lines))
    ends = next((at for at, line in enumerate(lines) if "short test summary" in line), len(lines))
    chosen = [
        f"FAILED: {stage.title}",
        *[line for line in lines if EXPLAINS.search(line)][-20:],
        *[line for line in lines[begins:ends] if DETAILS.search(line)][:60],
        *lines[-LAST_LINES:],
        f"All of it: {log}",
    ]
    return "\n".join(line[:300] for line in chosen)


def _print_list(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        state = row["green_for_these_inputs_since"] or (
            f"last tried {row['last_tried']}" if row["last_tried"] else "never"
        )
        print(f"{row['kind']:6} {row['name']:28} {state}")


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
