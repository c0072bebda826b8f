"""Commands for tools: a hint for an agent names a tool, a person types a command."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aop.core.errors import Json, with_names
from aop.wiring.catalogue import CATALOGUE

COMMANDS: Mapping[str, str] = {
    "evidence.latest": "aop review FEATURE",
    "evidence.verify": "aop evidence verify",
    "feature.approve": "aop approve FEATURE",
    "feature.comment": "aop comment FEATURE TEXT",
    "feature.comment_delete": "aop comment FEATURE --delete N",
    "feature.comment_edit": "aop comment FEATURE --edit N TEXT",
    "feature.comments": "aop comments FEATURE",
    "feature.delete": "aop delete FEATURE",
    "feature.init": "aop run --file SPEC",
    "feature.ready_to_merge": "aop merge FEATURE",
    "feature.redo": "aop redo FEATURE",
    "feature.reject": "aop reject FEATURE WHY",
    "feature.request_changes": "aop request-changes FEATURE TEXT",
    "feature.retry": "aop retry FEATURE",
    "feature.state_get": "aop status FEATURE",
    "feature.trees": "aop undo FEATURE",
    "feature.undo": "aop undo FEATURE",
    "forge.ask": "aop forge ask PROJECT",
    "forge.build_audit": "aop forge audit BUILD",
    "forge.build_abandon": "aop forge abandon BUILD",
    "forge.build_seal": "aop forge seal BUILD",
    "forge.build_status": "aop forge status BUILD",
    "forge.build_verify_seal": "aop forge verify BUILD",
    "forge.build_resume": "aop forge resume BUILD",
    "forge.check": "aop forge check PROJECT",
    "forge.contract_diff": "aop forge diff PROJECT TYPE A B",
    "forge.contract_edit": "aop forge edit PROJECT TYPE",
    "forge.contract_history": "aop forge history PROJECT TYPE",
    "forge.contract_show": "aop forge show PROJECT TYPE",
    "forge.errors_list": "aop forge errors BUILD",
    "forge.key_list": "aop forge key list",
    "forge.key_new": "aop forge key new",
    "forge.pin": "aop forge pin PROJECT",
    "forge.plan": "aop forge plan PROJECT",
    "forge.project_delete": "aop forge delete PROJECT",
    "forge.project_list": "aop forge list",
    "forge.project_new": "aop forge new NAME",
    "forge.project_show": "aop forge show PROJECT",
    "forge.scan": "aop forge scan PROJECT",
    "forge.scan_show": "aop forge map PROJECT",
    "gated.reset": "aop gated reset",
    "gated.resume": "aop gated resume",
    "gated.start": "aop gated start",
    "gated.status": "aop gated status",
    "inbox.answer": "aop answer ID TEXT",
    "inbox.list": "aop inbox",
    "repo.diff": "aop review FEATURE",
    "repo.follow_base": "aop rebase FEATURE --resolve",
    "repo.rebase_onto_main": "aop rebase FEATURE",
    "repo.sync": "aop sync",
    "repo.take_edits": "aop take FEATURE",
    "report.dashboard": "aop status",
    "run.add": "aop add",
    "run.pause": "aop pause",
    "run.resume": "aop resume",
}
"""Every other tool is reached with `aop call`."""

_NAME = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?)`")


def with_commands(hint: str, details: Mapping[str, Json]) -> str:
    """Return a hint with a command in place of each tool, with the names that the details have."""

    def command(name: re.Match[str]) -> str:
        tool = name[1]
        return f"`{COMMANDS.get(tool, f'aop call {tool}')}`" if tool in CATALOGUE else name[0]

    return with_names(_NAME.sub(command, hint), details)
