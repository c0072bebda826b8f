"""Where the model of a coding agent is: at the address that the environment names, with a placeholder for the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct

from aop.adapters.agents.sessions import ModelAccess
from aop.adapters.agents.vendors import Vendor
from aop.core.errors import ProviderAuthMissing
from aop.kernel.usage import Usage
from aop.supervisor.workers import WorkerInput

PLACEHOLDER = "aop-placeholder"


class PlainAccess(Struct, frozen=True, kw_only=True):
    """Implements `ModelAccess`; what is used, nobody counts."""

    base_url: str
    key: str = PLACEHOLDER

    def usage(self) -> Usage | None:
        return None


def key_of(vendor: Vendor, environ: Mapping[str, str], config_ref: str | None) -> str:
    """Return the user's key, which no agent gets to see.

    Raises: ProviderAuthMissing.
    """
    variable = config_ref or vendor.key_variable
    key = environ.get(variable, "").strip()
    if not key:
        raise ProviderAuthMissing(
            f"The provider `{vendor.provider}` takes its key from `{variable}`, which is not set.",
            hint=f"Set `{variable}` to your key, or name another variable: `--provider-config-env`.",
            variable=variable,
        )
    return key


def configured_access(
    environ: Mapping[str, str],
) -> Callable[[Vendor, WorkerInput], AbstractContextManager[ModelAccess]]:
    """Return what leads a session to the address that the environment names."""

    @contextmanager
    def access(vendor: Vendor, _given: WorkerInput) -> Iterator[ModelAccess]:
        yield PlainAccess(base_url=environ.get(vendor.url_variable) or vendor.url)

    return access
