"""Versions against constraints, by the rules of each ecosystem; and when support ends."""

from __future__ import annotations

import pytest

from aop.forge.scan.file_facts import Ecosystem
from aop.forge.scan.releases.lifetimes import end_of_support
from aop.forge.scan.releases.versions import satisfies


@pytest.mark.parametrize(
    ("ecosystem", "constraint", "version", "expected"),
    [
        ("python", ">=1.2,<2", "1.9.1", True),
        ("python", ">=1.2,<2", "2.0", False),
        ("python", "~=1.4.2", "1.4.9", True),
        ("python", "~=1.4.2", "1.5.0", False),
        ("python", "~=1.4", "1.9", True),
        ("python", "==1.*", "1.9", True),
        ("python", "!=1.5", "1.5", False),
        ("python", "", "0.1", True),
        ("python", "^1.2", "1.9", True),
        ("python", "^0.2.3", "0.3.0", False),
        ("node", "^4.18.0", "4.19.2", True),
        ("node", "^4.18.0", "5.0.0", False),
        ("node", "~4.18.0", "4.19.0", False),
        ("node", "4.x", "4.9.1", True),
        ("node", "4", "5.0.0", False),
        ("node", "1.2.3", "1.2.4", False),
        ("node", ">=1.0.0 <2.0.0 || >=3.0.0", "3.1.0", True),
        ("node", "1.0.0 - 2.0.0", "2.0.1", False),
        ("node", "github:a/b", "1.0.0", None),
        ("rust", "1.2", "1.9.0", True),
        ("rust", "1.2", "2.0.0", False),
        ("rust", "=1.2.3", "1.2.4", False),
        ("go", "v1.2.0", "v1.3.0", True),
        ("go", "v1.2.0", "v1.1.0", False),
        ("maven", "1.2", "1.3", None),
        ("python", ">=1", "not a version", None),
    ],
)
def test_a_version_satisfies_a_constraint(
    ecosystem: Ecosystem,
    constraint: str,
    version: str,
    expected: bool | None,  # noqa: FBT001 - the third answer is None
) -> None:
    assert satisfies(ecosystem, constraint, version) is expected


@pytest.mark.parametrize(
    ("ecosystem", "name", "version", "expected"),
    [
        ("runtime", "python", "3.8", "2024-10-07"),
        ("runtime", "python", "2.7", "2020-01-01"),
        ("runtime", "node", "18.2", "2025-04-30"),
        ("python", "Django", "4.2.11", "2026-04-30"),
        ("maven", "org.springframework.boot:spring-boot-starter-web", "2.7.1", "2023-11-24"),
        ("node", "request", "2.88.2", "2020-02-11"),
        ("python", "fastapi", "0.1", ""),
        ("runtime", "python", "", ""),
    ],
)
def test_support_ends_on_the_day_that_was_published(ecosystem: str, name: str, version: str, expected: str) -> None:
    assert end_of_support(ecosystem, name, version) == expected
