"""Watchdog: how long a running build may be silent. Pure; the runner acts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from aop.core.text.counts import count
from aop.kernel.config.workflows import BuildRules

Sign = Literal["beat", "warn", "fail"]
"""A sign of life is due; a person should look; the build is paused."""


class Watch(Struct, frozen=True, kw_only=True):
    """The memory of the watchdog of a running build, in seconds of a clock that never goes back."""

    alive_at: float
    """When the build last did something: a reply, a call, an answer."""
    looked_at: float
    beat_at: float
    """When the last beat was due."""
    warned: bool = False


def begun_watch(now: float) -> Watch:
    """Return the watch of a build that has just done something."""
    return Watch(alive_at=now, looked_at=now, beat_at=now)


def looked(watch: Watch, rules: BuildRules, now: float, *, is_asked: bool) -> tuple[Watch, tuple[Sign, ...]]:
    """Return the watch after a look, and the signs that are due; while a person is asked, the silence stands still.

    A look that comes late, as after a suspend, gives one beat and not all that were missed.
    """
    if is_asked:
        # The time since the last look was spent on waiting for a person, and is not silence.
        watch = replace(watch, alive_at=watch.alive_at + now - watch.looked_at)
    silent = now - watch.alive_at
    signs: list[Sign] = []
    if now - watch.beat_at >= rules.beat_seconds:
        signs.append("beat")
        watch = replace(watch, beat_at=now)
    if silent >= rules.fail_seconds:
        signs.append("fail")
    elif silent >= rules.warn_seconds and not watch.warned:
        signs.append("warn")
        watch = replace(watch, warned=True)
    return replace(watch, looked_at=now), tuple(signs)


def revived(watch: Watch, now: float) -> Watch:
    """Return the watch after the build did something."""
    return replace(watch, alive_at=now, looked_at=now, warned=False)


def silence_text(sign: Sign, seconds: int) -> str:
    """Return what those who follow a build are told; without the figure, so that equal silences are one error."""
    if sign == "beat":
        return f"The build is at work; the last reply or call was {count(seconds, 'second')} ago."
    if sign == "warn":
        return f"The build has done nothing for {count(seconds, 'second')}."
    return "The build did nothing for so long that it is held."
