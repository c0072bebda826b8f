"""`aop` with a model that answers every question about a ticket at once: what is left is what AOP itself takes."""

from __future__ import annotations

import sys
from typing import Any

from aop.adapters.models.rehearsed import RehearsedBrain
from aop.cli.main import main
from aop.tickets.review.answer import TicketReview
from aop.tickets.scaffold_plan import ScaffoldPlan
from aop.wiring import models

PLAN: Any = {
    "files": [{"path": "src/app.py", "name": "app.py", "content": "print('hello')\n"}],
    "summary": "One file.",
}
REPORT: Any = {
    "verdict": "COMMENT",
    "summary": "A start.",
    "findings": [
        {
            "file_path": "src/app.py",
            "line_number": 1,
            "severity": "MINOR",
            "description": "It prints.",
            "recommendation": "Return it.",
        }
    ],
}


def rehearsed(*_: Any, **__: Any) -> RehearsedBrain:
    return RehearsedBrain({ScaffoldPlan: PLAN, TicketReview: REPORT})


if __name__ == "__main__":
    models.build_brain = rehearsed
    sys.exit(main())
