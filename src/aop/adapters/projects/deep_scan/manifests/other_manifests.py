"""Manifests of Node, Maven, Gradle, Go and Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from aop.adapters.projects.deep_scan.file_kinds import LARGEST_MANIFEST
from aop.adapters.projects.deep_scan.manifests.manifest_text import (
    dependencies_of,
    json_of,
    plain_text,
    table,
    text_of_manifest,
    toml_of,
    with_lines,
)
from aop.forge.scan.file_facts import Dependency, ManifestFacts

_GRADLE = re.compile(
    r"^[ \t]*+(\w*[iI]mplementation|api|compileOnly|runtimeOnly|testRuntimeOnly|annotationProcessor|kapt)"
    r"""\s*+\(?\s*+(?:platform\()?["']([\w.-]+:[\w.-]+)(?::([^"'@]+))?["']""",
    re.MULTILINE,
)
_GO_REQUIRE = re.compile(
    r"^[ \t]*+(?:require[ \t]++)?(?=[\w-]*+\.)(\w[\w./~-]*+)[ \t]++(v[\w.+-]++)([ \t]*+//[ \t]*+indirect)?",
    re.MULTILINE,
)
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_GO_VERSION = re.compile(r"^go\s+(\S+)", re.MULTILINE)
_ARTIFACT = re.compile(r"<artifactId>([^<]*)<")
_PROPERTY = re.compile(r"\$\{([\w.-]+)\}")


def read_package_json(content: bytes) -> ManifestFacts:
    """Read a package.json."""
    whole = json_of(content, limit=LARGEST_MANIFEST)
    found = [
        *dependencies_of("node", table(whole, "dependencies"), "runtime", plain_text),
        *dependencies_of("node", table(whole, "devDependencies"), "development", plain_text),
        *dependencies_of("node", table(whole, "optionalDependencies"), "optional", plain_text),
    ]
    return ManifestFacts(
        ecosystem="node",
        name=plain_text(whole.get("name")),
        description=plain_text(whole.get("description")),
        dependencies=with_lines(text_of_manifest(content), found),
        runtime=plain_text(table(whole, "engines").get("node")),
        scripts=tuple(table(whole, "scripts")),
    )


def read_pom(content: bytes) -> ManifestFacts:
    """Read a pom.xml; one with a document type is refused, since entities can grow without end."""
    # As text: in another encoding, which the file itself may name, a document type would not be seen here.
    text = content.decode("utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it declares a document type")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    values = {_tag(each): (each.text or "").strip() for each in _children(root, "properties")}
    parent = next(iter(each for each in root if _tag(each) == "parent"), None)
    holders = [root, *(each for each in root if _tag(each) == "dependencyManagement")]
    elements = [each for holder in holders for each in _children(holder, "dependencies")]
    found = [_pom_dependency(each, values) for each in ([parent] if parent is not None else []) + elements]
    return ManifestFacts(
        ecosystem="maven",
        name=_child(root, "artifactId"),
        description=_child(root, "description"),
        dependencies=_with_artifact_lines(text, found),
        runtime=values.get("java.version") or values.get("maven.compiler.release") or "",
    )


def read_gradle(content: bytes) -> ManifestFacts:
    """Read a build.gradle or build.gradle.kts, as far as it names packages as texts."""
    text = text_of_manifest(content)
    found = []
    for match in _GRADLE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        is_test = "test" in match.group(1).lower()
        found.append(
            Dependency(
                name=match.group(2),
                constraint=match.group(3) or "",
                ecosystem="maven",
                group="development" if is_test else "runtime",
                line=line,
            )
        )
    return ManifestFacts(ecosystem="maven", dependencies=tuple(found))


def read_go_mod(content: bytes) -> ManifestFacts:
    """Read a go.mod."""
    text = text_of_manifest(content)
    module, version = _GO_MODULE.search(text), _GO_VERSION.search(text)
    found = [
        Dependency(
            name=match.group(1),
            constraint=match.group(2),
            ecosystem="go",
            group="optional" if match.group(3) else "runtime",
            line=text.count("\n", 0, match.start(1)) + 1,
        )
        for match in _GO_REQUIRE.finditer(text)
    ]
    return ManifestFacts(
        ecosystem="go",
        name=module.group(1) if module else "",
        dependencies=tuple(found),
        runtime=version.group(1) if version else "",
    )


def read_cargo(content: bytes) -> ManifestFacts:
    """Read a Cargo.toml."""
    whole = toml_of(content)
    found = [
        *dependencies_of("rust", table(whole, "dependencies"), "runtime", _cargo_constraint),
        *dependencies_of("rust", table(whole, "workspace", "dependencies"), "runtime", _cargo_constraint),
        *dependencies_of("rust", table(whole, "dev-dependencies"), "development", _cargo_constraint),
        *dependencies_of("rust", table(whole, "build-dependencies"), "development", _cargo_constraint),
    ]
    package = table(whole, "package")
    return ManifestFacts(
        ecosystem="rust",
        name=plain_text(package.get("name")),
        description=plain_text(package.get("description")),
        dependencies=with_lines(text_of_manifest(content), found),
        runtime=plain_text(package.get("rust-version")),
    )


def _cargo_constraint(value: object) -> str:
    return plain_text(value.get("version") if isinstance(value, dict) else value)


def _tag(element: ElementTree.Element) -> str:
    # The tag of a comment is a function.
    return str(element.tag).rpartition("}")[2]


def _child(element: ElementTree.Element, tag: str) -> str:
    return next((each.text or "" for each in element if _tag(each) == tag), "").strip()


def _children(element: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    for child in element:
        if _tag(child) == tag:
            yield from child


def _pom_dependency(element: ElementTree.Element, values: dict[str, str]) -> Dependency:
    version = _PROPERTY.sub(lambda match: values.get(match.group(1), match.group()), _child(element, "version"))
    return Dependency(
        name=f"{_child(element, 'groupId')}:{_child(element, 'artifactId')}",
        constraint=version,
        ecosystem="maven",
        group="development" if _child(element, "scope") == "test" else "runtime",
    )


def _with_artifact_lines(text: str, found: list[Dependency]) -> tuple[Dependency, ...]:
    from msgspec.structs import replace

    places: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _ARTIFACT.finditer(line):
            places.setdefault(match.group(1), number)
    return tuple(replace(each, line=places.get(each.name.partition(":")[2], 0)) for each in found)
