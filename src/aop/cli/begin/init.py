"""`aop init`: propose base branch and gates, show the files, ask, write them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.adapters.config.locations import FOLDER
from aop.adapters.config.reader import read_config
from aop.adapters.files.generated import Drift
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.projects.starter import StarterFiles, place_new_file, propose
from aop.cli.agents.contracts import contracts_in
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode, Profile, Step
from aop.kernel.config.in_force import Config

POLICY = f"{FOLDER}/policy.yaml"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--yes", action="store_true", help="write without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Propose, ask, write, and read the files back."""
    repository = open_repository(Path(arguments.repo), os.environ)
    proposal = propose(repository)
    contracts = contracts_in(repository.root)
    missing = tuple(drift for drift in contracts.drift() if drift.how == "missing")
    _show(terminal, repository, proposal)
    _show_contracts(terminal, missing)
    agreed = not (proposal.files or missing) or arguments.yes or terminal.confirm("Write them?")
    written = [path for path, text in proposal.files.items() if agreed and place_new_file(repository.root, path, text)]
    if agreed:
        contracts.write(missing)
        written += _folders_of(missing)
    base = proposal.base_branch
    config = read_config(repository.branches.head, repository.objects, repository.root, base_branch=base)
    if not agreed:
        terminal.say("Nothing was written.")
    elif written:
        _say_next_steps(terminal, repository, proposal, written)
    else:
        terminal.say("All files exist and are valid. Nothing was written.")
    return terminal.result(_as_json(proposal, written, config), "", code=Exit.OK if agreed else Exit.NOT_PROVEN)


def _show(terminal: Terminal, repository: Repository, proposal: StarterFiles) -> None:
    terminal.say(f"Repository   {repository.root}")
    terminal.say(f"Base branch  {proposal.base_branch} ({_why_base(proposal)})")
    if proposal.language:
        terminal.say(f"Language     {proposal.language}")
    for reason in proposal.reasons:
        terminal.say(f"Guessed      {reason}")
    for path in proposal.existing:
        terminal.say(f"Kept         {path} (it exists)")
    for path, text in proposal.files.items():
        terminal.say(f"\n{path}\n")
        terminal.say("".join(f"    {line}\n" for line in text.splitlines()).rstrip("\n"))
    if proposal.files:
        terminal.say("")
    for warning in proposal.warnings:
        terminal.say(f"Note: {warning}")


def _why_base(proposal: StarterFiles) -> str:
    if POLICY in proposal.existing:
        return f"as {POLICY} says, or the default"
    return "it is checked out here" if proposal.base_branch == proposal.checked_out else "the usual name"


def _show_contracts(terminal: Terminal, missing: tuple[Drift, ...]) -> None:
    if missing:
        where = ", ".join(_folders_of(missing))
        terminal.say(f"Also {count(len(missing), 'file')} that describe AOP's tools to other programs, in {where}.")
        terminal.say("They are generated; after an update of AOP, write them again with: aop tools write\n")


def _folders_of(drifted: tuple[Drift, ...]) -> list[str]:
    """Return the folders of the files; there are too many files to name each."""
    return sorted({"/".join(drift.path.split("/")[:3]) for drift in drifted})


def _say_next_steps(terminal: Terminal, repository: Repository, proposal: StarterFiles, written: list[str]) -> None:
    terminal.say(f"Wrote {', '.join(written)}.")
    place = "" if Path.cwd() == repository.root else f", in {repository.root}"
    elsewhere = "" if proposal.checked_out == proposal.base_branch else f" on `{proposal.base_branch}`"
    terminal.say(f"\nCommit the files{elsewhere}, then start with a spec{place}:")
    terminal.say(f'  git add -- {" ".join(written)} && git commit -m "Let AOP manage this repository"')
    terminal.say("  aop run -fi SPEC --agent-provider claude --wait")


def _as_json(proposal: StarterFiles, written: list[str], config: Config) -> dict[str, Json]:
    return {
        "written": list(written),
        "existing": list(proposal.existing),
        "base_branch": config.policy.worktree.base_branch,
        "language": proposal.language,
        "reasons": list(proposal.reasons),
        "gates": {name: _steps_by_mode(profile) for name, profile in config.gates.profiles.items()},
        "warnings": list(proposal.warnings),
    }


def _steps_by_mode(profile: Profile) -> dict[str, Json]:
    steps = {mode.value: profile.modes.steps(mode) or () for mode in Mode}
    return {mode: [_as_json_step(step) for step in of_mode] for mode, of_mode in steps.items()}


def _as_json_step(step: Step) -> dict[str, Json]:
    return {"name": step.name, "cmd": step.cmd, **({"cwd": step.cwd} if step.cwd else {})}
