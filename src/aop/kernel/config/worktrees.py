"""Worktree configuration: the shape of `worktree` in policy.yaml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand, demand_each

OWN = (".git", ".aop", ".worktrees", "agentic")
"""Paths of AOP and git, never given to a worktree."""


class SetupCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process that makes a worktree ready, once; no shell is involved."""

    cmd: Annotated[tuple[str, ...], Meta(min_length=1)]
    inputs: tuple[str, ...] = ()
    timeout_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    network: Literal["none", "host"] | None = None
    """None: as `execution.network` says."""

    def __post_init__(self) -> None:
        demand_each(flaws.in_argument, self.cmd, "cmd")
        demand_each(flaws.in_glob, self.inputs, "inputs")


class WorktreeRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    base_branch: str
    copy: tuple[str, ...]
    link: tuple[str, ...]
    setup: tuple[SetupCommand, ...]
    ports: Annotated[int, Meta(ge=0, le=100)]
    first_port: Annotated[int, Meta(ge=1024, le=60_000)]

    def __post_init__(self) -> None:
        demand(flaws.in_branch(self.base_branch), "base_branch")
        demand_each(flaws.in_glob, self.copy, "copy")
        demand_each(flaws.in_path, self.link, "link")
        for key, paths in (("copy", self.copy), ("link", self.link)):
            for index, path in enumerate(paths):
                if path.split("/")[0] in OWN:
                    raise Misfit(f"`{path.split('/')[0]}` cannot be put into a worktree", key, index)

    @property
    def gives_nothing(self) -> bool:
        """Tell whether a worktree holds its tree and nothing else."""
        return not (self.copy or self.link or self.setup)
