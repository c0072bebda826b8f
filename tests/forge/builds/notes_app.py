"""A small application, Notes, with its nine contracts, as a mini build makes it: its tests really run."""

from __future__ import annotations

from collections.abc import Mapping

from aop.forge.contracts.types import ContractType
from tests.forge.sample_contracts import CONTRACTS
from tests.world import PASSING_GATES

BASE: Mapping[str, str] = {
    "LICENSE": "Free to use.\n",
    "check.sh": "true\n",
    "agentic/orchestrator/gates.yaml": PASSING_GATES,
}
"""The repository that the build begins with."""

STACK = """\
# Notes — Stack

## Backend
- Language: Python 3.11, nothing but its standard library
- Framework: none, WSGI of the standard library
- Database: SQLite, one file, which holds all notes of one person
- Authentication: none, it listens to the own machine only

## Frontend
- None: programs talk to it over HTTP, and people over curl

## Infrastructure
- One process of one person on one machine, started by hand

## Development tools
- Tests: unittest, with one command for everything
"""

SCHEMA = """\
# Notes — Schema

## Conventions
Keys are integers, and every text is stored as it came in; nothing is deleted without a request for it. Whatever is
stored belongs to one person, so that no row needs an owner, and a copy of the file is a copy of everything.

## Tables

### notes
| Column | Type | Rules |
|---|---|---|
| id | integer | primary key |
| text | text | not null |
"""

PHYSICS = """\
info:
  title: Notes API
  version: "1"
paths:
  /notes:
    get:
      summary: All notes
      auth: none
      response: NoteList
    post:
      summary: Write a note
      auth: none
      request_body: NoteDraft
      response: Note
  /health:
    get:
      summary: Whether it runs
      auth: none
      response: Health
schemas:
  NoteDraft:
    text: string
  Note:
    id: integer
    text: string
  NoteList:
    items: list of Note
  Health:
    ok: boolean
"""

BOUNDARIES = """\
{
  "description": "Notes: the application answers, the store keeps.",
  "layers": [
    {
      "name": "app",
      "glob": "notes/app.py",
      "may_import": ["store"],
      "forbidden": [{"pattern": "\\\\bsqlite3\\\\b", "reason": "only the store talks to the database"}]
    },
    {
      "name": "store",
      "glob": "notes/store.py",
      "may_import": [],
      "forbidden": [{"pattern": "\\\\bprint\\\\(", "reason": "a store returns, it does not print"}]
    }
  ],
  "known_violations": []
}
"""

PHASES = """\
# Notes — Phases

## Phase 0 — Genesis
**Objective:** The store keeps notes, and the application says that it runs.
**Deliverables:**
- `notes/store.py`, `tests/test_store.py`
- `notes/app.py` with `GET /health`
**Schema coverage:** notes
**Exit criteria:**
- The tests pass

## Phase 1 — Release
**Objective:** Programs read and write notes, and a stranger can run it.
**Deliverables:**
- `/notes` in `notes/app.py`, each method with a test
- `README.md`: run, test
**Schema coverage:** none
**Exit criteria:**
- The README was followed once
"""

BUILDER_DIRECTIVE = """\
# Notes — Builder directive

## Mission
Build Notes in the order of its phases, and stop where two contracts disagree with each other.

## Loop
1. Read the phase and the contracts it touches.
2. Plan it, write code with tests, verify, report.

## Rules
- Only what the phase delivers is changed.
- A note is never changed without a request for it.

## Settings
```yaml
mode: mini
phase_order: [0, 1]
verify:
  - [python3, -m, compileall, -q, notes]
  - [python3, -m, unittest, discover, -s, tests, -t, .]
```
"""

NOTES: Mapping[ContractType, str] = {
    **CONTRACTS,
    ContractType.STACK: STACK,
    ContractType.SCHEMA: SCHEMA,
    ContractType.PHYSICS: PHYSICS,
    ContractType.BOUNDARIES: BOUNDARIES,
    ContractType.PHASES: PHASES,
    ContractType.BUILDER_DIRECTIVE: BUILDER_DIRECTIVE,
}

STORE = '''\
"""The store of all notes."""

import sqlite3


class Store:
    def __init__(self, path: str) -> None:
        self.rows = sqlite3.connect(path)
        self.rows.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")

    def add(self, text: str) -> int:
        return self.rows.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid

    def all(self) -> list[str]:
        return [row[0] for row in self.rows.execute("SELECT text FROM notes ORDER BY id")]
'''

TEST_STORE = """\
import unittest

from notes.store import Store


class StoreTest(unittest.TestCase):
    def test_a_note_is_kept(self) -> None:
        store = Store(":memory:")
        store.add("milk")
        self.assertEqual(store.all(), ["milk"])

    def test_an_empty_store_has_no_notes(self) -> None:
        self.assertEqual(Store(":memory:").all(), [])
"""

APP = '''\
"""The application, a WSGI callable."""

import json

from notes.store import Store

store = Store(":memory:")


def application(environ, start_response):
    route = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if route == ("GET", "/health"):
        return answer(start_response, "200 OK", {"ok": True})
    return answer(start_response, "404 Not Found", {})


def answer(start_response, status, body):
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(body).encode()]
'''

TEST_APP = """\
import unittest

from notes.app import application


def ask(method, path):
    said = []
    body = application({"REQUEST_METHOD": method, "PATH_INFO": path}, lambda status, headers: said.append(status))
    return said[0], b"".join(body)


class AppTest(unittest.TestCase):
    def test_it_says_that_it_runs(self) -> None:
        self.assertEqual(ask("GET", "/health"), ("200 OK", b'{"ok": true}'))
"""

APP_WITH_NOTES = APP.replace(
    '    return answer(start_response, "404',
    '    if route == ("GET", "/notes"):\n'
    '        return answer(start_response, "200 OK", {"items": store.all()})\n'
    '    if route == ("POST", "/notes"):\n'
    '        return answer(start_response, "201 Created", {"id": store.add("note")})\n'
    '    return answer(start_response, "404',
)

TEST_APP_WITH_NOTES = (
    TEST_APP
    + """
    def test_a_note_is_written_and_read(self) -> None:
        self.assertEqual(ask("POST", "/notes")[0], "201 Created")
        self.assertEqual(ask("GET", "/notes"), ("200 OK", b'{"items": ["note"]}'))
"""
)

PHASE_0: Mapping[str, str] = {
    "notes/__init__.py": "",
    "notes/store.py": STORE,
    "notes/app.py": APP,
    "tests/__init__.py": "",
    "tests/test_store.py": TEST_STORE,
    "tests/test_app.py": TEST_APP,
}
"""The files that phase 0 delivers."""

PHASE_1: Mapping[str, str] = {
    "notes/app.py": APP_WITH_NOTES,
    "tests/test_app.py": TEST_APP_WITH_NOTES,
    "README.md": "# Notes\n\nRun: python3 -m notes. Test: python3 -m unittest.\n",
}
"""The files that phase 1 adds to them, or changes."""
