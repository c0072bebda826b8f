"""Vendor sessions: one turn of a vendor's agent, with a scratch tree and a token.

The result is read from the record, where the agent's `submit_*` calls are, and from the tree that it leaves. Its exit
code and its output do not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from aop.adapters.agents.kept_sessions import KeptSession
from aop.adapters.agents.logins.login_sessions import CERTIFICATES, Logins, LoginSession
from aop.adapters.agents.model_access import Access, model_provider_of
from aop.adapters.agents.prompts import session_prompt
from aop.adapters.agents.scratch_trees import ScratchReader, scratch_of
from aop.adapters.agents.turn_logs import fresh_log, last_lines, turn_log
from aop.adapters.agents.vendors.catalogue import TOKEN_VARIABLE, Vendor
from aop.adapters.agents.vendors.launch import AgentSession, session_folder_of
from aop.adapters.agents.vendors.programs import library_of
from aop.adapters.agents.workers.command import TurnTimeouts, TurnWatch
from aop.adapters.agents.workers.turn_faults import clearest_fault, fault_of, quoted, told_trouble
from aop.adapters.files.own_folders import held_folder
from aop.core.errors import NoUsableAnswer
from aop.core.ids import FeatureId, RunId
from aop.core.roles import Role
from aop.kernel.config.policy import Sessions
from aop.kernel.gateway.calls import Kernel
from aop.kernel.gateway.tokens import LONGEST_LIFE, TokenOrder, Tokens
from aop.kernel.patches.stored_patches import StoredPatch, full_patch
from aop.kernel.ports.processes import Command, CommandResult, Ending
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.proposals import proposal_in
from aop.supervisor.workers import Note, PatchProposal, WorkerInput, WorkerOutput, WorkerRequest

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.models.metering.sessions import Meter

ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables that an agent inherits from AOP's environment."""
_TOKEN_OUTLIVES_TURN = timedelta(minutes=1)
# The shell only redirects the input and then becomes the program; the words are not parsed as shell.
_CONNECTED = ("/bin/sh", "-c", ': >"$0/begun" && exec <"$0/in" && exec "$@"')


class ModelChoice(Struct, frozen=True, kw_only=True):
    """The model of a session, and the variable with its key; None is the program's default."""

    model: str | None
    config_ref: str | None


class SessionContext(Struct, frozen=True, kw_only=True):
    """The parts that the sessions of one run share."""

    kernel: Kernel
    tokens: Tokens
    scratches: ScratchReader
    access: Access
    logins: Logins
    environment: Callable[[FeatureId], tuple[tuple[str, str], ...]]
    """The variables that name a feature's ports."""
    mcp_url: str
    private: Path
    root: Path
    logs: Path
    path: str
    timeouts: TurnTimeouts
    stopped: Callable[[FeatureId], str]
    """Returns why a feature was stopped; empty if it was not."""

    def kept_session(self, feature_id: FeatureId, role: Role, agent: str) -> KeptSession | None:
        """Return the place of a session that goes on; None if the policy wants a new one in each turn."""
        if self.kernel.config().policy.supervisor.sessions is not Sessions.RESUME:
            return None
        return KeptSession(self.root, feature_id, role, agent)

    @contextmanager
    def token(self, role: Role, feature_id: FeatureId, turn: str | None = None) -> Iterator[str]:
        """Issue a token that is revoked when the session ends."""
        life = timedelta(seconds=self.timeouts.seconds) + _TOKEN_OUTLIVES_TURN
        order = TokenOrder(
            role=role, feature_id=feature_id, run_id=None if turn is None else RunId(turn), life=min(life, LONGEST_LIFE)
        )
        handed = self.tokens.issue(order, by="system")
        try:
            yield handed.text
        finally:
            self.tokens.revoke(handed.token.token_id, by="system")

    @contextmanager
    def model_access(
        self, vendor: Vendor, feature_id: FeatureId, role: Role, choice: ModelChoice
    ) -> Iterator[Meter | LoginSession]:
        """Open the way of one turn to its model: with the agent's own log-in, or through a meter."""
        if self.logins.is_on(vendor):
            with self.logins.open(vendor, feature_id, role, choice.model) as session:
                yield session
        else:
            with self.access(vendor, feature_id, role, choice.config_ref) as meter:
                yield meter

    def has_sandbox(self) -> bool:
        """Tell whether a sandbox is in force."""
        kernel = self.kernel
        return kernel.processes.sandbox_level(kernel.config().policy.execution.sandbox) != "none"

    def submission(self, turn: str, given: WorkerInput) -> Mapping[str, Any] | None:
        """Return the last submission of a turn, with the whole patch."""
        with self.kernel.record.read() as view:
            answer = proposal_in(view, turn, given.feature_id, given.role)
        if answer is None or "patch_blob" not in answer:
            return answer
        diff = full_patch(self.kernel.git.objects, StoredPatch(unified_diff="", patch_blob=answer["patch_blob"]))
        return {**{name: value for name, value in answer.items() if name != "patch_blob"}, "unified_diff": diff}


class AgentProgram(Struct, frozen=True, kw_only=True):
    """An installed coding agent and the context of its sessions."""

    vendor: Vendor
    path: str
    context: SessionContext

    def run(
        self,
        session: AgentSession,
        folder: Path,
        prompt: str,
        feature_id: FeatureId,
        *,
        access: Meter | LoginSession,
        kept: KeptSession | None = None,
    ) -> CommandResult:
        """Run the agent with a prompt until it ends; a kept session goes on."""
        context, rules = self.context, self.context.kernel.config().policy.execution
        launch, login = self.vendor.launch(session), access if isinstance(access, LoginSession) else None
        if login is not None:
            launch = login.launch(launch, context.logins.environ)
        write_home(session.home, launch.files)
        if login is not None:
            login.write_credentials(session.home)
        if kept is not None and session.resumed:
            kept.restore(session.home, session_folder_of(self.vendor.row, session.tree))
        (folder / "in").write_text(prompt, encoding="utf-8")
        stopped = partial(context.stopped, feature_id)
        watch = TurnWatch(folder / "begun", lambda: 0, context.timeouts, time.monotonic, stopped)
        path = os.pathsep.join([os.path.dirname(self.path), context.path])
        own = {"PATH": path, "HOME": str(session.home), TOKEN_VARIABLE: session.token, **launch.env}
        certificates = [launch.env[name] for name in CERTIFICATES if name in launch.env]
        command = Command(
            argv=(*_CONNECTED, str(folder), self.path, *launch.words),
            cwd=session.tree,
            worktree=session.tree,
            env=(*context.environment(feature_id), *own.items()),
            env_allowlist=ENVIRONMENT,
            timeout_seconds=context.timeouts.seconds,
            ends_early=access.ends_early(watch.ends_early),
            log_path=fresh_log(context.logs, feature_id, session.role),
            max_log_bytes=rules.max_log_bytes,
            sandbox=rules.sandbox,
            # Only the meter, or the proxy to the vendor, and AOP's tools are reachable, both on this machine.
            network="ports",
            ports=tuple(urlsplit(url).port or 0 for url in (session.mcp_url, session.model_url)),
            readable=(*rules.sandbox_read, *library_of(self.path), *certificates),
            writable=(*rules.sandbox_write, str(folder)),
            limits=rules.limits,
        )
        return context.kernel.processes.run(command)


class SessionWorker:
    """Implements `aop.supervisor.workers.Worker` with a program that is started for each turn."""

    def __init__(self, program: AgentProgram) -> None:
        self._program = program
        self._context = program.context

    def turn(self, given: WorkerInput) -> WorkerOutput:
        turn = self._context.kernel.new_id("turn")
        with self._context.token(given.role, given.feature_id, turn) as token:
            return self._metered_turn(given, turn, token)

    def _metered_turn(self, given: WorkerInput, turn: str, token: str) -> WorkerOutput:
        choice = ModelChoice(model=given.model, config_ref=given.provider_config_ref)
        with self._context.model_access(self._program.vendor, given.feature_id, given.role, choice) as model:
            try:
                output = self._run_session(given, turn, token, model)
            except NoUsableAnswer as refusal:
                clearest = clearest_of(refusal, model, model_provider_of(self._program.vendor))
                clearest.facts["usage"] = msgspec.to_builtins(usage_of(model))
                raise clearest from refusal
        return msgspec.structs.replace(output, usage=usage_of(model))

    def _run_session(self, given: WorkerInput, turn: str, token: str, model: Meter | LoginSession) -> WorkerOutput:
        context = self._context
        context.private.mkdir(parents=True, exist_ok=True)
        vendor = self._program.vendor
        kept = (
            context.kept_session(given.feature_id, given.role, vendor.provider) if vendor.row.session_folder else None
        )
        with scratch_of(context.kernel, given.feature_id) as scratch, held_folder(context.private) as folder:
            session = AgentSession(
                role=given.role,
                model=given.model,
                home=folder / "home",
                tree=scratch.folder,
                mcp_url=context.mcp_url,
                token=token,
                model_url=model.base_url,
                model_key=model.placeholder_key,
                sandboxed=context.has_sandbox(),
                resumed="" if kept is None else kept.session_id,
            )
            prompt = session_prompt(given, self._program.vendor.row.prompt, turn)
            ended = self._program.run(session, folder, prompt, given.feature_id, access=model, kept=kept)
            has_edits = session.edits and ended.ending is Ending.EXITED and not is_interrupted(ended, model)
            diff = context.scratches.diff(scratch) if has_edits else ""
            lines = last_lines(turn_log(context.logs, given.feature_id, given.role))
            with dropped_on_failure(kept):
                output = answer_of(context.submission(turn, given), diff, ended, lines)
            if kept is None:
                return output
            place = session_folder_of(vendor.row, session.tree)
            mask = context.kernel.redact.mask_secrets
            return msgspec.structs.replace(output, session=kept.keep(session.home, place, mask))


@contextmanager
def dropped_on_failure(kept: KeptSession | None) -> Iterator[None]:
    """Forget a session in which a turn failed: it may be the cause, so the next turn begins a new one."""
    try:
        yield
    except NoUsableAnswer:
        if kept is not None:
            kept.drop()
        raise


def is_interrupted(ended: CommandResult, model: Meter | LoginSession) -> bool:
    """Tell whether a trouble of the provider ended the program: the edits that it left are half of its work."""
    return bool(ended.exit_code) and not isinstance(model, LoginSession) and model.report().trouble is not None


def usage_of(model: Meter | LoginSession) -> Usage:
    """Return what a turn used: counted by its meter, or reported by the agent itself."""
    return model.usage() if isinstance(model, LoginSession) else model.report().turn_usage


def clearest_of(fault: NoUsableAnswer, model: Meter | LoginSession, provider: str) -> NoUsableAnswer:
    """Return the fault of a turn as its access to the model explains it; with a log-in, as the program tells it."""
    if isinstance(model, LoginSession):
        return told_trouble(model.clearest_fault(fault))
    return clearest_fault(fault, model.report(), provider)


def answer_of(
    proposed: Mapping[str, Any] | None, diff: str, ended: CommandResult, lines: Sequence[str] = ()
) -> WorkerOutput:
    """Return a submitted request, or else the diff of the tree with submitted marks, or else another submission.

    Raises: NoUsableAnswer, or the fault of the program whose last lines these are.
    """
    said: WorkerOutput | None = None if proposed is None else msgspec.convert(proposed, WorkerOutput)
    if diff and not isinstance(said, WorkerRequest):
        beside = said if isinstance(said, PatchProposal | Note) else Note(note="")
        return PatchProposal(unified_diff=diff, qa_index=beside.qa_index, comments=beside.comments)
    if said is not None:
        return said
    fault = fault_of(ended, lines)
    if fault is not None:
        raise fault
    raise NoUsableAnswer(
        f"The agent ended without a submission or a changed file.{quoted(lines)}",
        hint=_HINT,
        ending=ended.ending,
        exit_code=ended.exit_code,
        last_lines=list(lines),
    )


_HINT = "Edit files in your working directory, or call one of the `submit_*` tools, before you stop."


def write_home(home: Path, files: Mapping[str, str]) -> None:
    """Make an agent's private home, with these files."""
    home.mkdir(mode=0o700)
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
