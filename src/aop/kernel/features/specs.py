"""Specs: the file in which a person says what a feature should do."""

from __future__ import annotations

from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.projections import FEATURES

LARGEST_SPEC = 256 * 1024


def spec_path(feature_id: str) -> str:
    """Return the path of a feature's spec, from the repository's root."""
    return f"{FEATURES}/{feature_id}/spec.md"


def spec_text(kernel: Kernel, feature_id: str) -> str | None:
    """Return a feature's spec without secrets, or None. Raises: FileNotFound for a link, a folder or a huge file."""
    data = kernel.files.read(spec_path(feature_id), limit=LARGEST_SPEC)
    return None if data is None else kernel.redact.mask_secrets(data.decode(errors="replace"))
