"""Python manifests: pyproject.toml, requirements files, setup.cfg, Pipfile."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator

from aop.adapters.projects.deep_scan.manifests.manifest_text import (
    dependencies_of,
    plain_text,
    table,
    text_of_manifest,
    toml_of,
    with_lines,
    words,
)
from aop.forge.scan.file_facts import Dependency, Group, ManifestFacts

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;#()@]*)\)?")
_GAP = re.compile(r"(?<=\S)[^\S\n]{20,}")
_DEVELOPMENT = re.compile(r"dev|test|lint|doc|ci|type|check", re.IGNORECASE)


def read_pyproject(content: bytes) -> ManifestFacts:
    """Read a pyproject.toml: the standard tables, dependency groups, and Poetry's own."""
    whole, text = toml_of(content), text_of_manifest(content)
    project, poetry = table(whole, "project"), table(whole, "tool", "poetry")
    found = [*_of_lines(words(project.get("dependencies")), "runtime")]
    for name, lines in table(project, "optional-dependencies").items():
        found += _of_lines(words(lines), _group(name, "optional"))
    for lines in table(whole, "dependency-groups").values():
        found += _of_lines(words(lines), "development")
    wanted = dict(table(poetry, "dependencies"))
    python = wanted.pop("python", "")
    found += dependencies_of("python", wanted, "runtime", _poetry_constraint)
    for group in (table(poetry, "dev-dependencies"), *_poetry_groups(poetry)):
        found += dependencies_of("python", group, "development", _poetry_constraint)
    return ManifestFacts(
        ecosystem="python",
        name=plain_text(project.get("name")) or plain_text(poetry.get("name")),
        description=plain_text(project.get("description")) or plain_text(poetry.get("description")),
        dependencies=with_lines(text, found),
        runtime=plain_text(project.get("requires-python")) or _poetry_constraint(python),
        scripts=tuple(table(project, "scripts")) or tuple(table(poetry, "scripts")),
    )


def read_requirements(content: bytes, path: str) -> ManifestFacts:
    """Read a requirements file; its options, links and inclusions are left out."""
    group: Group = _group(path.rpartition("/")[2], "runtime")
    found: list[Dependency] = []
    for number, line in enumerate(text_of_manifest(content).splitlines(), start=1):
        found += [
            Dependency(name=each.name, constraint=each.constraint, ecosystem="python", group=group, line=number)
            for each in _of_lines([line], group)
        ]
    return ManifestFacts(ecosystem="python", dependencies=tuple(found))


def read_setup_cfg(content: bytes) -> ManifestFacts:
    """Read a setup.cfg."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    text = text_of_manifest(content)
    try:
        # The reader takes as many steps for a gap as the square of its length.
        parser.read_string(_GAP.sub(" ", text))
    except configparser.Error as error:
        raise ValueError(str(error).splitlines()[0]) from error
    found = [*_of_lines(_option(parser, "options", "install_requires"), "runtime")]
    extras = parser["options.extras_require"] if parser.has_section("options.extras_require") else {}
    for name, lines in extras.items():
        found += _of_lines(lines.splitlines(), _group(name, "optional"))
    return ManifestFacts(
        ecosystem="python",
        name=parser.get("metadata", "name", fallback=""),
        description=parser.get("metadata", "description", fallback=""),
        dependencies=with_lines(text, found),
        runtime=parser.get("options", "python_requires", fallback=""),
    )


def read_pipfile(content: bytes) -> ManifestFacts:
    """Read a Pipfile."""
    whole = toml_of(content)
    found = dependencies_of("python", table(whole, "packages"), "runtime", _poetry_constraint)
    found += dependencies_of("python", table(whole, "dev-packages"), "development", _poetry_constraint)
    version = plain_text(table(whole, "requires").get("python_version"))
    return ManifestFacts(ecosystem="python", dependencies=with_lines(text_of_manifest(content), found), runtime=version)


def _of_lines(lines: Iterable[str], group: Group) -> Iterator[Dependency]:
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is not None and "://" not in line.partition("#")[0].partition("@")[0]:
            constraint = match.group(2).split(" --")[0].strip(" \\,")
            yield Dependency(name=match.group(1), constraint=constraint, ecosystem="python", group=group)


def _group(name: str, otherwise: Group) -> Group:
    return "development" if _DEVELOPMENT.search(name) else otherwise


def _option(parser: configparser.ConfigParser, section: str, option: str) -> list[str]:
    return parser.get(section, option, fallback="").splitlines()


def _poetry_groups(poetry: object) -> Iterator[dict[str, object]]:
    for group in table(poetry, "group").values():
        yield dict(table(group, "dependencies"))


def _poetry_constraint(value: object) -> str:
    """Return a constraint of Poetry; `*` is any version."""
    if isinstance(value, dict):
        value = value.get("version", "")
    constraint = plain_text(value)
    return "" if constraint == "*" else constraint
