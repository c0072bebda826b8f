"""Nine contracts of a small project, Bird Log, that agree with each other, and the answers they were made from."""

from __future__ import annotations

from collections.abc import Mapping

from aop.forge.contracts.types import ContractType

MANIFESTO = """\
# Bird Log — Manifesto

## Purpose
Bird Log keeps the sightings of a bird club in one place, so that a count reaches everybody the same day.

## Principles
- **The field is the judge.** A sighting is written in ten seconds with one hand, in the rain.
- **Counts are evidence.** A number is never changed without leaving the old one readable.
- **Proven, then shipped.** No rule of the club is in the code without a test that names it.

## Non-goals
- No social feed, no likes.
"""

BLUEPRINT = """\
# Bird Log — Blueprint

## Intent
Members of a club of 60 write down what they saw, where and how many; the club exports a year for the national atlas.

## Features
1. **Members.** The secretary invites by mail; members sign in by password.
2. **Sightings.** Species, place, count, time; corrected, never overwritten.
3. **Yearly export.** One CSV file for the atlas.

## Architecture
- Server-rendered pages over one small web application with an HTTP API.
- Routers parse, services decide, repos store; one SQLite file holds it all.
"""

STACK = """\
# Bird Log — Stack

## Backend
- Language: Python 3.12
- Framework: FastAPI
- Database: SQLite, one file, write-ahead log
- Authentication: password and session cookie

## Frontend
- Jinja templates rendered by the server, HTMX for the forms

## Infrastructure
- One container on a small virtual machine, Docker, systemd unit

## Development tools
- Tests: pytest
- Style: Ruff
"""

SCHEMA = """\
# Bird Log — Schema

## Conventions
Keys are integers; all times are stored in UTC as text.

## Tables

### members
| Column | Type | Rules |
|---|---|---|
| id | integer | primary key |
| email | text | unique, not null |
| password_hash | text | not null |

### sightings
| Column | Type | Rules |
|---|---|---|
| id | integer | primary key |
| member_id | integer | references members(id) |
| species | text | not null |
| count | integer | at least 1 |
| seen_at | text | not null |
"""

PHYSICS = """\
info:
  title: Bird Log API
  version: "1"
paths:
  /members:
    post:
      summary: Invite a member
      auth: session
      request_body: Invitation
      response: Member
  /sightings:
    get:
      summary: Sightings of a year
      auth: session
      query_params:
        year: integer
      response: SightingList
    post:
      summary: Write down a sighting
      auth: session
      request_body: SightingDraft
      response: Sighting
schemas:
  Invitation:
    email: string
  Member:
    id: integer
    email: string
  SightingDraft:
    species: string
    count: integer
  Sighting:
    id: integer
    species: string
    count: integer
  SightingList:
    items: list of Sighting
"""

BOUNDARIES = """\
{
  "description": "Bird Log: routers parse, services decide, repos store.",
  "layers": [
    {
      "name": "routers",
      "glob": "birdlog/routers/**/*.py",
      "may_import": ["services"],
      "forbidden": [{"pattern": "\\\\bsqlite3\\\\b", "reason": "only repos talk to the database"}]
    },
    {
      "name": "services",
      "glob": "birdlog/services/**/*.py",
      "may_import": ["repos"],
      "forbidden": [{"pattern": "\\\\bfastapi\\\\b", "reason": "services know nothing of HTTP"}]
    },
    {
      "name": "repos",
      "glob": "birdlog/repos/**/*.py",
      "may_import": [],
      "forbidden": [{"pattern": "\\\\bprint\\\\(", "reason": "a repo returns, it does not print"}]
    }
  ],
  "known_violations": []
}
"""

UI = """\
# Bird Log — UI

## Design system
- Large touch targets of 56 px, dark text on a light ground, readable in sunlight
- One accent colour, dark green

## Pages
- **Sign in** (`/sign-in`): mail and password.
- **New sighting** (`/`): species, count, place; writes `/sightings`.
- **Year** (`/year`): a table by species; reads `/sightings`.

## Components
- SpeciesPicker: finds a species by any part of its name
- Counter: plus and minus, no keyboard needed
"""


def _phase(number: int, name: str, objective: str, deliverables: str, tables: str, criterion: str) -> str:
    return (
        f"## Phase {number} — {name}\n**Objective:** {objective}\n**Deliverables:**\n- {deliverables}\n"
        f"**Schema coverage:** {tables}\n**Exit criteria:**\n- {criterion}\n\n"
    )


PHASES = "# Bird Log — Phases\n\n" + "".join(
    [
        _phase(0, "Genesis", "The application starts.", "`birdlog/app.py` with a health page", "none", "pytest passes"),
        _phase(1, "Members", "Members exist.", "`/members` with its repo", "members", "an invited member signs in"),
        _phase(
            2, "Sightings", "Sightings are stored.", "`/sightings` to write", "sightings", "a count below 1 is refused"
        ),
        _phase(3, "Year", "A year is shown.", "`/sightings` to read, page `/year`", "sightings", "the table sums up"),
        _phase(4, "Field use", "One hand is enough.", "SpeciesPicker, Counter", "none", "no page scrolls sideways"),
        _phase(5, "Release", "A stranger runs it.", "`README.md`, `Dockerfile`", "none", "the README was followed"),
    ]
)

MINI_PHASES = "# Bird Log — Phases\n\n" + "".join(
    [
        _phase(0, "Genesis", "A page that keeps sightings.", "`index.html`, its tests", "none", "the tests pass"),
        _phase(1, "Release", "A stranger uses it.", "`README.md`, the counter", "none", "the README was followed"),
    ]
)

BUILDER_DIRECTIVE = """\
# Bird Log — Builder directive

## Mission
Build Bird Log in the order of its phases, and stop where two contracts disagree.

## Loop
1. Read the phase and the contracts it touches.
2. Plan it, write code with tests, verify, report.

## Rules
- Only what the phase delivers is changed.
- A correction of a sighting keeps the old value.

## Settings
```yaml
mode: full
phase_order: [0, 1, 2, 3, 4, 5]
verify:
  - [python, -m, pytest, -q]
```
"""

CONTRACTS: Mapping[ContractType, str] = {
    ContractType.MANIFESTO: MANIFESTO,
    ContractType.BLUEPRINT: BLUEPRINT,
    ContractType.STACK: STACK,
    ContractType.SCHEMA: SCHEMA,
    ContractType.PHYSICS: PHYSICS,
    ContractType.BOUNDARIES: BOUNDARIES,
    ContractType.UI: UI,
    ContractType.PHASES: PHASES,
    ContractType.BUILDER_DIRECTIVE: BUILDER_DIRECTIVE,
}

ANSWERS: Mapping[str, Mapping[str, object]] = {
    "product_intent": {
        "summary": "Bird Log keeps the sightings of a bird club in one place.",
        "users": ["members of the club", "the secretary"],
        "features": ["members", "sightings", "yearly export"],
        "user_stories": ["A member writes down a sighting with one hand."],
    },
    "tech_stack": {"backend": "Python with FastAPI", "frontend": "Jinja templates with HTMX", "auth": "session cookie"},
    "database_schema": {"database": "SQLite", "entities": ["members", "sightings"]},
    "api_endpoints": {"endpoints": ["invite a member", "list and write sightings"]},
    "ui_requirements": {"pages": ["sign in", "new sighting", "year"]},
    "architectural_boundaries": {"layers": ["routers", "services", "repos"]},
    "deployment_target": {"deployment": "one Docker container"},
    "dev_platform": {"platform": "Linux", "verify": [["python", "-m", "pytest", "-q"]]},
}
