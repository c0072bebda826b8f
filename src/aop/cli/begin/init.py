"""`aop init`: propose gates, try them on the base commit, write three files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aop.adapters.config.locations import FOLDER
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.projects.first_commit import CommitRefused, commit_files
from aop.adapters.projects.placement import place_new_files
from aop.adapters.projects.starter import Proposal, propose, reasons_of
from aop.adapters.projects.trials.trial import GateResult, Trial, left_out_of, results_of
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import gate_call
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.text.counts import count
from aop.wiring.build import Settings, build

POLICY = f"{FOLDER}/policy.yaml"
NETWORK_RISK = (
    "  It runs code of this repository (setup.py, the build backend, install scripts of package.json) and of the",
    "  packages that it installs. All that code can then use the network of this machine, in every worktree. Where a",
    "  feature changes a manifest, a lock file or another input of the command, the network stays closed until a",
    "  person agrees.",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--yes", action="store_true", help="write without asking, and let set-up commands use the network"
    )
    parser.add_argument("--no-run", action="store_true", help="guess the gates, but do not run them")
    parser.add_argument("--commit", action="store_true", help="commit the written files on the base branch")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Propose, try, ask, write, and commit if that is wanted."""
    repository = open_repository(Path(arguments.repo), os.environ)
    proposal = propose(repository)
    _show_guess(terminal, repository, proposal)
    if proposal.files and not arguments.yes and not terminal.is_interactive:
        raise InvalidCliArgs("There is no terminal to ask on.", hint="Pass `--yes` to answer yes in advance.")
    ran = bool(proposal.drafts) and not arguments.no_run
    proposal, results = _tried(repository, proposal, terminal, arguments) if ran else (proposal, None)
    gates = results or results_of(proposal.drafts, {}, ran=False)
    _show_files(terminal, proposal, gates)
    agreed = not proposal.files or arguments.yes or terminal.confirm("Write them?")
    written = _write(repository, proposal) if agreed else ()
    commit = _commit(repository, proposal, written, terminal, arguments)
    _say_end(terminal, repository, proposal, written, agreed=agreed, committed=bool(commit))
    code = Exit.OK if agreed else Exit.NOT_PROVEN
    return terminal.result(_as_json(proposal, written, gates, commit), "", code=code)


def _tried(
    repository: Repository, proposal: Proposal, terminal: Terminal, asked: argparse.Namespace
) -> tuple[Proposal, tuple[GateResult, ...]]:
    """Run the guessed gates on the base commit, and cure what is red."""
    from aop.adapters.projects.trials.attempts import attempts_on

    terminal.say(f"\nTrying the gates on `{proposal.base_branch}` ({proposal.head[:10]}), in a copy of its files:")
    with build(repository.root, Settings.from_env(os.environ)) as app:
        call = gate_call(app, terminal.say)
        trial = Trial(
            attempts_on(call, proposal.head, proposal.config_with),
            proposal.environments,
            _Agreement(terminal, is_given=asked.yes, is_possible="policy" in proposal.lacking).for_command,
            terminal.say,
        )
        drafts = tuple(trial.heal(draft) for draft in proposal.drafts)
    return msgspec.structs.replace(proposal, drafts=drafts, has_run=True), results_of(drafts, trial.causes, ran=True)


class _Agreement:
    """The person's leave for set-up commands to use the network, asked for once for each command."""

    def __init__(self, terminal: Terminal, *, is_given: bool, is_possible: bool) -> None:
        self._terminal = terminal
        self._is_given = is_given
        self._is_possible = is_possible
        self._answers: dict[str, bool] = {}

    def for_command(self, command: str) -> bool:
        """Tell whether a command may run with the network open. Without a policy.yaml to write, none may."""
        if not self._is_possible or self._is_given:
            return self._is_possible
        if command not in self._answers:
            for line in (f"  `{command}` needs the network to set up a worktree.", *NETWORK_RISK):
                self._terminal.say(line)
            self._answers[command] = self._terminal.confirm("  Allow it, for this command alone?")
        return self._answers[command]


def _show_guess(terminal: Terminal, repository: Repository, proposal: Proposal) -> None:
    terminal.say(f"Repository   {repository.root}")
    terminal.say(f"Base branch  {proposal.base_branch} ({_why_base(proposal)})")
    if proposal.language:
        terminal.say(f"Language     {proposal.language}")
    for reason in reasons_of(proposal.drafts):
        terminal.say(f"Guessed      {reason}")
    for path in proposal.existing:
        terminal.say(f"Kept         {path} (it exists)")


def _why_base(proposal: Proposal) -> str:
    if POLICY in proposal.existing:
        return f"as {POLICY} says, or the default"
    return "it is checked out here" if proposal.base_branch == proposal.checked_out else "the usual name"


def _show_files(terminal: Terminal, proposal: Proposal, gates: Sequence[GateResult]) -> None:
    for name, text in proposal.files.items():
        terminal.say(f"\n{FOLDER}/{name}\n")
        terminal.say("".join(f"    {line}\n" for line in text.splitlines()).rstrip("\n"))
    terminal.say("")
    for cure in dict.fromkeys(cure for draft in proposal.drafts for cure in draft.cures):
        terminal.say(f"Changed      {cure}")
    for one in gates:
        words = {"pass": "passes on the base commit", "fail": f"has no step: {one.cause}", "not_run": "was not run"}
        terminal.say(f"Gate         {one.profile} {one.mode}: {words[one.result]}")
    for warning in proposal.notes:
        terminal.say(f"Note: {warning}")


def _write(repository: Repository, proposal: Proposal) -> tuple[str, ...]:
    if proposal.files:
        repository.exclude_runtime_files()
    return place_new_files(repository.root, FOLDER, proposal.files)


def _commit(
    repository: Repository, proposal: Proposal, written: Sequence[str], terminal: Terminal, asked: argparse.Namespace
) -> str:
    """Commit the written files if that is wanted and possible; return the commit, or nothing."""
    if not written:
        return ""
    if proposal.checked_out != proposal.base_branch:
        if asked.commit:
            terminal.say(f"Not committed: `{proposal.base_branch}` is not checked out here.")
        return ""
    if not (asked.commit or (not asked.yes and terminal.confirm(f"Commit them on `{proposal.base_branch}`?"))):
        return ""
    try:
        commit = commit_files(repository.root, written, os.environ)
    except CommitRefused as refused:
        terminal.say(f"Not committed. {refused}")
        return ""
    terminal.say(f"Committed {count(len(written), 'file')} as {commit[:10]} on `{proposal.base_branch}`.")
    return commit


def _say_end(
    terminal: Terminal,
    repository: Repository,
    proposal: Proposal,
    written: Sequence[str],
    *,
    agreed: bool,
    committed: bool,
) -> None:
    if not agreed:
        terminal.say("Nothing was written.")
        return
    if not written:
        terminal.say("All files exist and are valid. Nothing was written.")
        return
    terminal.say(f"Wrote {', '.join(written)}.")
    place = "" if Path.cwd() == repository.root else f", in {repository.root}"
    elsewhere = "" if proposal.checked_out == proposal.base_branch else f" on `{proposal.base_branch}`"
    if committed:
        terminal.say(f"\nNext{place}:")
    else:
        terminal.say(f"\nCommit the files{elsewhere}, then say what to change{place}:")
        terminal.say(f'  git add -- {" ".join(written)} && git commit -m "Let AOP manage this repository"')
    terminal.say('  aop fix "WHAT TO CHANGE" --agent-provider claude --wait')


def _as_json(proposal: Proposal, written: Sequence[str], gates: Sequence[GateResult], commit: str) -> dict[str, Json]:
    return {
        "files": list(written),
        "existing": list(proposal.existing),
        "base_branch": proposal.base_branch,
        "language": proposal.language,
        "reasons": list(reasons_of(proposal.drafts)),
        "gates": [msgspec.to_builtins(one) for one in gates],
        "left_out": [
            {"profile": name, "modes": list(one.modes), "command": " ".join(one.step.cmd), "cause": one.cause}
            for name, one in left_out_of(proposal.drafts)
        ],
        "commit": commit or None,
        "warnings": list(proposal.notes),
    }
