"""Page forms: every form of the templates, and which forms a page holds.

A form is named by its template and by its action: `now/merge.html merge`. One that only asks for a page is named
`show`. `@pytest.mark.clicks("now/merge.html merge")` at a browser test claims that it sends this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from jinja2 import Environment, PackageLoader, meta

from aop.web.pages.feature.feature import TABS
from aop.web.pages.page_list import PAGES

MACROS = "frame/forms.html"
"""Draws forms for the templates that name them, and holds none of its own."""
FRAMES = ("frame/page.html",)
PLATFORM = "platform"
"""The pages of all repositories of a database: they decide nothing, and the tests with PostgreSQL look at them."""
_TEMPLATES = files("aop.web").joinpath("templates")
_DONE = re.compile(r'(?<!form)action="/do/([a-z-]+)"|\bbutton\("([a-z-]+)"')
_BUTTONS = re.compile(r'formaction="/do/([^"]*)"')
_WORDS = re.compile(r"'([a-z-]+)'|^([a-z-]+)$")
_SHOWN = re.compile(r'<form[^>]*method="get"')


def all_forms() -> set[str]:
    """Return every form of every template."""
    return {f"{name} {action}" for name in _names() if name != MACROS for action in actions_in(_text(name))}


def actions_in(text: str) -> set[str]:
    """Return the actions of the forms that a template writes."""
    found = {word for pair in _DONE.findall(text) for word in pair if word}
    for expression in _BUTTONS.findall(text):
        found |= {word for pair in _WORDS.findall(expression) for word in pair if word}
    if "start_run(" in text:
        found.add("start-run")
    if _SHOWN.search(text):
        found.add("show")
    return found


def forms_at(path: str, action: str) -> set[str]:
    """Return the forms that may have been sent by a page at this path."""
    return {f"{name} {action}" for name in _templates_of(path)}


def _templates_of(path: str) -> set[str]:
    """Return the templates of which a page is made."""
    page = next(each for each in PAGES if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each.path), path))
    shown = {page.template, *FRAMES}
    if page.template == "feature/feature.html":
        tab = path.split("/")[3:] or [TABS[0]]
        shown.add(f"feature/{tab[0]}.html")
    return _with_parts(shown)


def _with_parts(names: Iterable[str]) -> set[str]:
    """Return templates together with all that they extend, include or import by name."""
    environment = Environment(loader=PackageLoader("aop.web"), autoescape=True)
    found, left = set[str](), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [each for each in meta.find_referenced_templates(environment.parse(_text(name))) if each]
    return found


def _names() -> list[str]:
    return [
        f"{folder.name}/{each.name}"
        for folder in _TEMPLATES.iterdir()
        if folder.is_dir() and folder.name != PLATFORM
        for each in folder.iterdir()
        if each.name.endswith(".html")
    ]


def _text(name: str) -> str:
    return _TEMPLATES.joinpath(name).read_text()
