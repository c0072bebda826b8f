"""LCOV tracefiles: all records, those of one file merged."""

from __future__ import annotations

from aop.kernel.gates.reports.measurements import CoverageReport, UnreadableReport, count_in, share_of


def read_lcov(data: bytes) -> CoverageReport:
    """Return the figures of a whole tracefile. Raises: UnreadableReport."""
    reader = _LcovReader()
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), start=1):
        try:
            reader.take(line.strip())
        except UnreadableReport as error:
            raise UnreadableReport(f"line {number}: {error}") from error
    if reader.source is not None:
        raise UnreadableReport("its last record does not end")
    if not reader.records:
        raise UnreadableReport("it has no record")
    return CoverageReport(line=share_of(reader.lines.values()), branch=share_of(reader.branches.values()))


class _LcovReader:
    """Collects lines and branches over all records; a line is covered if one record of its file hits it."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], bool] = {}
        self.branches: dict[tuple[str, str], bool] = {}
        self.source: str | None = None
        self.records = 0
        self._stated = {"LF": 0, "BRF": 0}
        self._listed = {"LF": 0, "BRF": 0}

    def take(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        if line == "end_of_record":
            self._end()
            return
        tag, colon, rest = line.partition(":")
        if not colon or not tag.isupper():
            raise UnreadableReport(f"`{line[:40]}` is not LCOV")
        if tag == "SF":
            self._begin(rest)
        elif tag in ("DA", "BRDA", "LF", "BRF"):
            self._count(tag, rest)

    def _begin(self, source: str) -> None:
        if self.source is not None:
            raise UnreadableReport("a record begins inside another")
        self.source = source
        self._stated = {"LF": 0, "BRF": 0}
        self._listed = {"LF": 0, "BRF": 0}

    def _count(self, tag: str, rest: str) -> None:
        if self.source is None:
            raise UnreadableReport(f"`{tag}` stands outside of a record")
        if tag == "DA":
            number, _, hits = rest.partition(",")
            line = (self.source, count_in(number, "line"))
            self.lines[line] = count_in(hits.partition(",")[0], "hits") > 0 or self.lines.get(line, False)
            self._listed["LF"] += 1
        elif tag == "BRDA":
            name, _, taken = rest.rpartition(",")
            branch = (self.source, name)
            self.branches[branch] = (taken != "-" and count_in(taken, "taken") > 0) or self.branches.get(branch, False)
            self._listed["BRF"] += 1
        else:
            self._stated[tag] = count_in(rest, tag)

    def _end(self) -> None:
        if self.source is None:
            raise UnreadableReport("a record ends that did not begin")
        for tag, stated in self._stated.items():
            if stated > self._listed[tag]:
                raise UnreadableReport(f"`{tag}` counts {stated}, and the record lists {self._listed[tag]}")
        self.source = None
        self.records += 1
