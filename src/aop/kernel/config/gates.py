"""Gate configuration: the shape of gates.yaml. Each key: docs/configuration.md."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand, demand_each

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Share = Annotated[float, Meta(ge=0, le=1)]
Texts = tuple[str, ...]


class Mode(StrEnum):
    """A set of gate steps that a profile has."""

    FAST = "fast"
    FULL = "full"
    MERGE = "merge"


class ParserType(StrEnum):
    """How the report of a gate run is read."""

    NONE = "none"
    LCOV = "lcov"
    JUNIT_XML = "junit_xml"
    JACOCO_XML = "jacoco_xml"
    COBERTURA_XML = "cobertura_xml"
    CUSTOM = "custom"


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a configuration file."""


class Step(Section, frozen=True, kw_only=True):
    """One process of a gate run; no shell is involved."""

    name: str
    cmd: Annotated[Texts, Meta(min_length=1)]
    cwd: str | None = None
    env: dict[str, str] = {}
    timeout_seconds: Seconds | None = None
    outputs: Texts = ()
    """Paths or patterns of the files that it leaves for the steps after it; everything else is undone."""

    def __post_init__(self) -> None:
        demand(flaws.in_stem(self.name), "name")
        demand_each(flaws.in_planned_path, self.outputs, "outputs")
        demand_each(flaws.in_argument, self.cmd, "cmd")
        if self.cwd is not None:
            demand(flaws.in_path(self.cwd), "cwd")
        for name, value in self.env.items():
            demand(flaws.in_variable(name) or ("it has a NUL in it" if "\0" in value else None), "env", name)


class Modes(Section, frozen=True, kw_only=True):
    """The steps of each mode; `merge` is optional."""

    fast: tuple[Step, ...]
    full: tuple[Step, ...]
    merge: tuple[Step, ...] | None = None

    def __post_init__(self) -> None:
        for mode in Mode:
            seen: set[str] = set()
            for index, step in enumerate(self.steps(mode) or ()):
                # Each step has a log file, and some file systems do not tell `Unit` from `unit`.
                if step.name.casefold() in seen:
                    raise Misfit(f"two steps of this mode are named `{step.name}`", mode.value, index, "name")
                seen.add(step.name.casefold())

    def steps(self, mode: Mode) -> tuple[Step, ...] | None:
        """Return the steps of a mode, or None if the profile does not have it."""
        return {Mode.FAST: self.fast, Mode.FULL: self.full, Mode.MERGE: self.merge}[mode]


class CoverageParser(Section, frozen=True, kw_only=True):
    """The coverage report of a gate run, and its path."""

    type: ParserType
    path: str | None = None
    optional: bool = False
    plugin: str | None = None
    modes: tuple[Mode, ...] = tuple(Mode)
    """The modes that demand the report; in others it is not read."""

    def __post_init__(self) -> None:
        if self.type is not ParserType.NONE and self.path is None:
            raise Misfit(f"a parser of type `{self.type}` needs the path of its report", "path")
        if self.path is not None:
            demand(flaws.in_path(self.path), "path")
        if self.plugin is not None and self.type is not ParserType.CUSTOM:
            raise Misfit("only a parser of type `custom` has a plugin", "plugin")


class TestsParser(Section, frozen=True, kw_only=True):
    """The test report of a gate run: files at a path, which may be a glob, or what one of its steps prints."""

    type: Literal["junit_xml", "go_test_json", "cargo_test"]
    path: str = ""
    step: str = ""
    modes: tuple[Mode, ...] = tuple(Mode)

    def __post_init__(self) -> None:
        needed, other = ("path", "step") if self.type == "junit_xml" else ("step", "path")
        if not getattr(self, needed):
            raise Misfit(f"a parser of type `{self.type}` needs the {needed} of its report", needed)
        if getattr(self, other):
            raise Misfit(f"a parser of type `{self.type}` has no {other}", other)
        demand(flaws.in_planned_path(self.path) if self.path else flaws.in_stem(self.step), needed)


class Parsers(Section, frozen=True, kw_only=True):
    coverage: CoverageParser | None = None
    tests: TestsParser | None = None


class Thresholds(Section, frozen=True, kw_only=True):
    """Coverage that a profile demands beyond the policy."""

    coverage_line_min: Share | None = None
    coverage_branch_min: Share | None = None
    coverage_line_target: Share | None = None
    coverage_branch_target: Share | None = None


class Profile(Section, frozen=True, kw_only=True):
    """One way of proving a feature."""

    modes: Modes
    parsers: Parsers = Parsers()
    thresholds: Thresholds = Thresholds()
    capabilities: tuple[ParserType, ...] | None = None
    parallel: bool = False


class Gates(Section, frozen=True, kw_only=True):
    """gates.yaml: the commands that prove a feature."""

    version: Literal[1]
    profiles: dict[str, Profile]

    def __post_init__(self) -> None:
        for name in self.profiles:
            demand(flaws.in_stem(name), "profiles", name)
