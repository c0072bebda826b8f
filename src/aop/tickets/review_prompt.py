"""The one question that a review is made from: the same ticket, standards, diff and fence give the same bytes."""

from __future__ import annotations

from aop.brains.prompts import Data, Prompt, prompt
from aop.brains.shapes import schema_of
from aop.core.jsontext import canonical_json
from aop.reviews.report import CodeReviewReport
from aop.tickets.ports import Ticket

INSTRUCTIONS = """\
You review a merge request against its ticket and the standards. You change, merge and approve nothing; Python checks
your report and publishes it. Never repeat a secret, not even one that stands in the diff: name its place. Look at:
- correctness: does the change do what the ticket requires, each acceptance criterion, and nothing else?
- security: injection, missing checks of rights, unsafe handling of data, secrets in the code
- SOLID, clean code, naming
- API usage: are libraries and interfaces called as they are meant to be?
- tests and documentation: is what matters tested, and described where people look?
Report only what you can point at in the diff. Every finding has a severity, the file, the line of the new file where
there is one, what is wrong, and what to do about it. CRITICAL is for what must not be merged."""

TASK = """\
Review the diff. Answer once, in this schema: `verdict`, `summary`, `findings` grouped by file, each with `severity` and
`recommendation`, and `next_steps`.

{schema}"""


def review_prompt(
    ticket: Ticket, requirements: str, project: str, architecture: str, diff: str, *, fence: str
) -> Prompt:
    """Put the question together; everything that others wrote stands in it as data."""
    data = [
        Data(source="the ticket's title", text=ticket.summary, max_chars=500),
        Data(source="the ticket's requirements", text=requirements),
        Data(source="architecture and standards", text=architecture),
        Data(source="what is known of the service", text=project),
        # Its size was looked at before: what does not fit is not reviewed in this way.
        Data(source="the diff of the merge request", text=diff, max_chars=len(diff)),
    ]
    schema = canonical_json(schema_of(CodeReviewReport)).decode()
    return prompt(INSTRUCTIONS, TASK.format(schema=schema), data, fence)
