"""Prompt of a scaffold; the same ticket, standards and fence give the same bytes."""

from __future__ import annotations

import msgspec

from aop.brains.prompts import Data, Prompt, build_prompt
from aop.brains.shapes import schema_of
from aop.core.text.json import canonical_json
from aop.core.text.yaml import dump_yaml
from aop.tickets.mission.blocks import SCAFFOLDING, ScaffoldingMission
from aop.tickets.scaffold_plan import ScaffoldPlan

INSTRUCTIONS = """\
You plan the first files of a new service. Python checks your plan and writes the files; you write nothing yourself.
Hard constraints, each of which is checked:
- No secrets: no passwords, tokens, keys or connection strings with credentials, not even made-up ones. Read them from
  the environment, and name the variables in an `.env.example` with empty values.
- Every `path` is relative to the root of the repository, with `/` between plain names, without `..`; `name` is its last
  part. No path twice, nothing below `.git`, no `.env`.
- A deterministic structure: the folders that the standards ask for, as they spell them; files ordered by path.
- No empty files, except `.gitkeep`, `__init__.py` and `py.typed`.
- Keep to the architecture and the standards in the data. Where they are silent, take the smallest thing that works."""

TASK = """\
Plan the scaffold that the ticket asks for: every file, with its whole content, so that the service builds and its tests
pass as they stand. Answer once, in this schema: `files`, a list of `path`, `name` and `content`; and `summary`, one or
two sentences on what was made.

{schema}"""


def scaffolding_prompt(
    summary: str, mission: ScaffoldingMission, project: str, architecture: str, *, fence: str
) -> Prompt:
    """Return the question; all texts of others are in it as data."""
    config = dump_yaml({SCAFFOLDING: msgspec.to_builtins(mission)})
    data = [
        Data(source="the ticket's title", text=summary, max_chars=500),
        Data(source="the ticket's configuration", text=config),
        Data(source="architecture and standards", text=architecture),
        Data(source="what is known of the service", text=project),
    ]
    schema = canonical_json(schema_of(ScaffoldPlan)).decode()
    return build_prompt(INSTRUCTIONS, TASK.format(schema=schema), data, fence)
