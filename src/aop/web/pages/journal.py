"""Journal page: everything that happened, the newest first."""

from __future__ import annotations

from typing import Any

import msgspec

from aop.core.ids import FeatureId, is_feature_id
from aop.core.redaction.redactor import mask_json
from aop.kernel.record.port import JournalEntry, newest_seq
from aop.web.pages.frame import Visit

PAGE_SIZE = 100
LONGEST_PAYLOAD = 400


def journal_facts(visit: Visit) -> dict[str, Any]:
    """Return a page of the journal, before a number, of one feature or of all."""
    asked, feature = visit.query.get("before", ""), visit.query.get("feature", "")
    name = FeatureId(feature) if is_feature_id(feature) else None
    with visit.door.kernel.record.read() as view:
        newest = newest_seq(view)
        before = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) <= 18 else newest + 1
        if name is None:
            entries = list(view.journal(after=max(0, before - 1 - PAGE_SIZE), limit=PAGE_SIZE))
            entries = [each for each in entries if each.seq < before]
        else:
            entries = [each for each in view.journal(feature_id=name) if each.seq < before][-PAGE_SIZE:]
    return {
        "entries": [(each, _payload(visit, each)) for each in reversed(entries)],
        "feature": feature,
        "older": entries[0].seq if entries and entries[0].seq > 1 else 0,
        "is_newest": before > newest,
    }


def _payload(visit: Visit, entry: JournalEntry) -> str:
    masked = mask_json(dict(entry.event.payload), visit.door.kernel.redact.mask_secrets)
    text = msgspec.json.encode(masked).decode()
    return text if len(text) <= LONGEST_PAYLOAD else f"{text[:LONGEST_PAYLOAD]}..."
