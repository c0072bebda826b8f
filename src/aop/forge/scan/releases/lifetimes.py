"""Lifetimes: when the support of well-known releases ended or will end.

Dates are those that the projects published. A package or a release that is not listed is not known to have ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from aop.forge.scan.releases.versions import release_of

_PYTHON = {
    "2": "2020-01-01",
    "3.0": "2009-06-27",
    "3.1": "2012-04-09",
    "3.2": "2016-02-20",
    "3.3": "2017-09-29",
    "3.4": "2019-03-18",
    "3.5": "2020-09-30",
    "3.6": "2021-12-23",
    "3.7": "2023-06-27",
    "3.8": "2024-10-07",
    "3.9": "2025-10-31",
    "3.10": "2026-10-31",
    "3.11": "2027-10-31",
    "3.12": "2028-10-31",
    "3.13": "2029-10-31",
}
_NODE = {
    **dict.fromkeys(map(str, range(12)), "2021-06-01"),
    "12": "2022-04-30",
    "13": "2020-06-01",
    "14": "2023-04-30",
    "15": "2021-06-01",
    "16": "2023-09-11",
    "17": "2022-06-01",
    "18": "2025-04-30",
    "19": "2023-06-01",
    "20": "2026-04-30",
    "21": "2024-06-01",
    "22": "2027-04-30",
    "23": "2025-06-01",
    "24": "2028-04-30",
}
_DJANGO = {
    "1": "2020-04-01",
    "2.0": "2019-04-01",
    "2.1": "2019-12-02",
    "2.2": "2022-04-11",
    "3.0": "2021-04-06",
    "3.1": "2021-12-07",
    "3.2": "2024-04-01",
    "4.0": "2023-04-01",
    "4.1": "2023-12-01",
    "4.2": "2026-04-30",
    "5.0": "2025-04-02",
    "5.1": "2025-12-31",
    "5.2": "2028-04-30",
}
_SPRING_BOOT = {
    "1": "2019-08-06",
    **{f"2.{minor}": "2023-11-24" for minor in range(8)},
    "3.0": "2023-12-31",
    "3.1": "2024-06-30",
    "3.2": "2024-12-31",
    "3.3": "2025-06-30",
    "3.4": "2025-12-31",
    "3.5": "2026-06-30",
}
_ANGULAR = {
    **dict.fromkeys(map(str, range(2, 16)), "2024-05-03"),
    "16": "2024-11-08",
    "17": "2025-05-15",
    "18": "2025-11-21",
    "19": "2026-05-19",
}
_ENDED: Mapping[str, Mapping[str, str]] = {
    "runtime:python": _PYTHON,
    "runtime:node": _NODE,
    "runtime:go": {f"1.{minor}": "2024-08-13" for minor in range(22)} | {"1.22": "2025-02-11", "1.23": "2025-08-12"},
    "python:django": _DJANGO,
    "python:nose": {"": "2016-01-01"},
    "python:pycrypto": {"": "2014-06-20"},
    "node:vue": {"1": "2018-01-01", "2": "2023-12-31"},
    "node:angular": {"1": "2021-12-31"},
    "node:@angular/core": _ANGULAR,
    "node:request": {"": "2020-02-11"},
    "node:tslint": {"": "2019-12-01"},
    "node:babel-eslint": {"": "2020-07-01"},
    "node:node-sass": {"": "2024-07-24"},
    "maven:org.springframework.boot": _SPRING_BOOT,
}


def end_of_support(ecosystem: str, name: str, version: str) -> str:
    """Return the day on which the support of a release ends or ended; empty if that is not known."""
    key = f"{ecosystem}:{name.partition(':')[0] if ecosystem == 'maven' else name.lower()}"
    table = _ENDED.get(key, {})
    if "" in table:
        return table[""]
    release = release_of(version)
    for length in range(len(release or ()), 0, -1):
        day = table.get(".".join(map(str, (release or ())[:length])))
        if day:
            return day
    return ""
