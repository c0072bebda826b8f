"""Remote forge: a gateway whose read tools answer from another AOP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from aop.adapters.config.reader import bundled_texts
from aop.adapters.machine.clock import SystemClock, new_id
from aop.adapters.storage.forge_api.client import KEY_VARIABLE, ForgeClient
from aop.adapters.storage.forge_api.remote_record import RemoteRecord
from aop.core.errors import Fault, UnknownForgeBuild, UnknownForgeProject
from aop.core.redaction.redactor import Redactor
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.kernel.config.loader import ConfigTexts, load_config
from aop.kernel.gateway.calls import Kernel
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.record.port import Record
from aop.wiring.build import Settings
from aop.wiring.catalogue import CATALOGUE
from aop.wiring.late_parts import late_tokenizer

REMOTE_TOOLS = (
    "forge_get_build_contracts",
    "forge_get_contract",
    "forge_get_phase_window",
    "forge_get_project_context",
    "forge_get_project_contract",
    "forge_get_summary",
    "forge_list_contracts",
    "forge_list_project_contracts",
)
"""The tools that only read projects, builds and contracts."""
_ANY_PROJECT = "-"
"""The id of no project: asking for it shows whether the address answers, and knows the key."""


@contextmanager
def remote_gateway(settings: Settings, url: str, caller: Principal) -> Iterator[Gateway]:
    """Yield a gateway to another AOP that answers; no repository is opened.

    Raises: InvalidCliArgs, ForgeKeyInvalid, ForgeUnreachable, UnknownForgeProject, UnknownForgeBuild.
    """
    client = ForgeClient(url, settings.environ.get(KEY_VARIABLE, "").strip())
    config = load_config(ConfigTexts(), bundled_texts())
    absent = cast("Any", _AbsentPort())
    kernel = Kernel(
        record=RemoteRecord(client),
        git=absent,
        files=absent,
        processes=absent,
        locks=absent,
        worktree_extras=absent,
        calls=_NoLog(),
        clock=SystemClock(),
        signer=absent,
        redact=Redactor(settings.secrets),
        new_id=new_id,
        config=lambda: config,
        tokenizer=late_tokenizer(),
    )
    try:
        _check_answers(kernel.record, caller)
        yield Gateway(kernel, {name: CATALOGUE[name] for name in REMOTE_TOOLS}, settles=False)
    finally:
        client.close()


def _check_answers(record: Record, caller: Principal) -> None:
    """Ask for the project or build that will be read, so that a wrong address, key or name is found at the start."""
    with record.read() as view:
        if caller.build is not None:
            if view.get(ForgeBuild, caller.build) is None:
                raise UnknownForgeBuild(caller.build)
        elif view.get(ForgeProject, caller.project or _ANY_PROJECT) is None and caller.project is not None:
            raise UnknownForgeProject(caller.project)


class _AbsentPort:
    """Stands for a port that reading another AOP does not need."""

    def __getattr__(self, name: str) -> Any:
        raise Fault(f"`{name}` is not there without a repository.")


class _NoLog:
    """Implements `CallLog`: the other AOP logs what it is asked."""

    def note(self, call: LoggedCall) -> None:
        """Keep nothing."""
