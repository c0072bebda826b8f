"""What every test starts from: no git settings of this machine, and the same hypothesis examples each time."""

from __future__ import annotations

import os

import hypothesis
import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Under a git hook GIT_DIR names the outer repository, and a test's `git commit` would land there.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("repeatable")
