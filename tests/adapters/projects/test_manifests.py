"""Manifests and lock files that were written to stop a scan."""

from __future__ import annotations

from time import process_time

import pytest

from aop.adapters.projects.deep_scan.manifests.manifest_reader import read_lock, read_manifest

SIZE = 50_000
PACKAGES = ",\n".join(f'"p{number}": "1"' for number in range(SIZE))


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("build.gradle", "\n" * SIZE),
        ("build.gradle", "api" + " " * SIZE),
        ("go.mod", "\n" * SIZE),
        ("go.mod", "a.b" + "." * SIZE),
        ("package.json", f'{{"dependencies": {{{PACKAGES}}}}}'),
        ("pyproject.toml", "a" + ".a" * SIZE + " = 1"),
        ("setup.cfg", "[options]\na" + " " * SIZE + "a"),
    ],
)
def test_the_time_to_read_a_manifest_grows_with_its_size_alone(path: str, text: str) -> None:
    began = process_time()
    read_manifest(path, text.encode())
    assert process_time() - began < 5


@pytest.mark.unmeasured
def test_the_time_to_read_a_lock_file_grows_with_its_size_alone() -> None:
    began = process_time()
    read_lock("pnpm-lock.yaml", b"  a@1" + b"1" * SIZE)
    assert process_time() - began < 5


def test_a_document_type_is_not_hidden_by_another_encoding() -> None:
    text = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE p [<!ENTITY a "b">]><p><artifactId>&a;</artifactId></p>'
    read = read_manifest("pom.xml", text.encode("utf-16"))
    assert (read.name, read.problem.partition(":")[0]) == ("", "it cannot be read")


def test_a_package_has_the_line_that_names_it() -> None:
    cargo = read_manifest("Cargo.toml", b'[dependencies]\nserde.workspace = true\nserde_json = "1"\n')
    node = read_manifest("package.json", b'{"dependencies": {\n"@a/b": "1",\n"b": "2"}}')
    assert [(each.name, each.line) for each in (*cargo.dependencies, *node.dependencies)] == [
        ("serde", 2),
        ("serde_json", 3),
        ("@a/b", 2),
        ("b", 3),
    ]
