"""Assembly of a model from settings: remote models in their order, or a recording."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.models.endpoints import Endpoint, endpoint_of
from aop.adapters.models.recorded_model import RecordedModel, RecordingModel
from aop.adapters.models.settings import BrainSettings
from aop.brains.conversation import Model
from aop.brains.fallback import FallbackModel
from aop.core.errors import ModelSupportMissing
from aop.core.redaction.redactor import Redactor


def assembled_model(settings: BrainSettings, environ: Mapping[str, str], redact: Redactor) -> Model:
    """Return the model of the settings; a replay sends no request and needs no key.

    Raises: ModelNotConfigured, ModelKeyMissing, ModelSupportMissing, InputPathNotFound.
    """
    if settings.replay is not None:
        return RecordedModel(settings.replay, redact)
    places = [endpoint_of(name, environ) for name in settings.models]
    model = _priority_list(places, settings, environ, redact)
    return model if settings.record is None else RecordingModel(model, settings.record, redact)


def _priority_list(
    places: list[Endpoint], settings: BrainSettings, environ: Mapping[str, str], redact: Redactor
) -> Model:
    try:
        from aop.adapters.models.remote_model import RemoteModel
    except ModuleNotFoundError as error:
        raise ModelSupportMissing("This installation of AOP has no model support.") from error
    last = len(places) - 1
    models = [
        RemoteModel(place, environ, redact, retries=settings.retries if at == last else 0)
        for at, place in enumerate(places)
    ]
    models[0].load()
    return FallbackModel(models)
