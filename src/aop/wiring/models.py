"""Models: a brain, and what asks one; no server of MCP composes these by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aop.adapters.machine.clock import SystemClock, new_id
from aop.core.redaction.redactor import Redactor

if TYPE_CHECKING:
    from aop.brains.ports import Brain
    from aop.kernel.ports.reviewer import Reviewer
    from aop.tickets.steps import Desk, Ledger
    from aop.wiring.build import Settings


def build_brain(settings: Settings, *, chosen: str | None = None, product: str | None = None) -> Brain:
    """Return a brain with the chosen models, or those of the product's variable or of `AOP_MODELS`.

    Raises: ModelNotConfigured, ModelKeyMissing, ModelSupportMissing, InputPathNotFound, InvalidConfiguration.
    """
    from aop.adapters.models.assembly import assembled_model
    from aop.adapters.models.settings import BrainSettings
    from aop.brains.model_brain import ModelBrain

    redact = Redactor(settings.secrets)
    wanted = BrainSettings.from_env(settings.environ, chosen=chosen, product=product)
    model = assembled_model(wanted, settings.environ, redact)
    return ModelBrain(model, wanted.prices, SystemClock(), redact, wanted.limits)


def model_reviewer(settings: Settings) -> Reviewer:
    """Return the reviewer of gated workflows that is a model."""
    from aop.adapters.models.reviewer import ModelReviewer

    return ModelReviewer(lambda model: build_brain(settings, chosen=model, product="code-review"), new_id)


@contextmanager
def build_ticket_desk(
    settings: Settings, ledger: Ledger, kind: str, is_cut_off: Callable[[], bool] = lambda: False
) -> Iterator[Desk]:
    """Yield the ports of a kind of ticket work; the providers' servers end with it, and call nothing while cut off.

    Raises: TicketSettingMissing, TicketProviderUnsupported, and what `build_brain` raises.
    """
    from aop.adapters.tickets.setup.assembly import ticket_desk
    from aop.tickets.runs.runner import PRODUCTS

    brain = build_brain(settings, product=PRODUCTS[kind])
    redact = Redactor(settings.secrets)
    with ticket_desk(settings.environ, PRODUCTS[kind], brain, ledger, redact, is_cut_off=is_cut_off) as desk:
        yield desk
