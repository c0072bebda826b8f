"""What the tests in a real Chromium share: one browser for each module, and a repository that is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.mcpserver.clients import served
from tests.web.browser.page_forms import forms_at
from tests.web.browser.windows import launched, sent_forms
from tests.world import World, make_repository


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not one for the whole run: while Playwright works, a test cannot run an event loop of its own."""
    with launched() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    with served(made.root):
        yield made
    made.close()


@pytest.fixture(autouse=True)
def claims(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold a test to what its marker `clicks` claims: each of these forms was sent, by a page that has it."""
    sent_forms.clear()
    yield
    claimed = {form for marker in request.node.iter_markers("clicks") for form in marker.args}
    assert claimed <= {form for path, action in sent_forms for form in forms_at(path, action)}
