"""`aop run` as people and scripts meet it: real processes, a real agent command, real kills."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from aop.adapters.machine.supervisor_lease import holder_of
from aop.core.version import VERSION
from tests.cli.shops import SECONDS, Shop, agents_alive, error_of
from tests.racing import until
from tests.world import World, git, run_aop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# --- what is refused before anything happens -----------------------------------------------------------


@pytest.mark.req("AOP-300", "AOP-303", "AOP-305", "AOP-306", "AOP-307", "AOP-311", "AOP-312", "AOP-314", "AOP-321")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["-fi", "{specs}/good.md", "-fl", "{specs}"], "invalid_cli_args", id="file and folder"),
        pytest.param(["--file", "{specs}/good.md", "--folder", "{specs}"], "invalid_cli_args", id="in full"),
        pytest.param(["--file", "{specs}/nowhere.md"], "input_path_not_found", id="no such file"),
        pytest.param(["-fl", "{specs}/nowhere"], "input_path_not_found", id="no such folder"),
        pytest.param(["-fi", "{specs}"], "invalid_cli_args", id="a folder as a file"),
        pytest.param(["-fl", "{specs}/good.md"], "invalid_cli_args", id="a file as a folder"),
        pytest.param(["-fl", "{specs}/empty"], "no_specs_found", id="an empty folder"),
        pytest.param([], "no_specs_found", id="nothing to discover"),
        pytest.param(["-fi", "{specs}/Not A Slug.md"], "invalid_feature_slug", id="no slug"),
        pytest.param(["-fi", "{specs}/.spec.md"], "invalid_feature_slug", id="nothing left of the name"),
        pytest.param(["-fl", "{specs}/twins"], "feature_slug_collision", id="two of one id"),
        pytest.param(["-fi", "{specs}/latin.md"], "spec_ingest_failed", id="not UTF-8"),
        pytest.param(["-fi", "{specs}/void.md"], "spec_ingest_failed", id="an empty spec"),
        pytest.param(["-fi", "{specs}/good.md", "--max-active", "0"], "invalid_cli_args", id="no feature at once"),
        pytest.param(
            ["-fi", "{specs}/good.md", "--agent-provider", "oracle"], "unsupported_agent_provider", id="no provider"
        ),
        pytest.param(
            ["-fi", "{specs}/good.md", "--provider-config-env", "NOT_SET"], "provider_auth_missing", id="no command"
        ),
    ],
)
def test_a_run_that_cannot_begin_says_why_and_changes_nothing(shop: Shop, words: list[str], code: str) -> None:
    shop.wants("good", "Not A Slug", ".spec")
    for name, data in {"latin.md": b"caf\xe9", "void.md": b" \n"}.items():
        (shop.specs / name).write_bytes(data)
    for folder in ("empty", "twins/one", "twins/two"):
        (shop.specs / folder).mkdir(parents=True)
    for name in ("one/same.spec.md", "two/same-spec.md"):
        (shop.specs / "twins" / name).write_text("Twice.\n")
    ran = shop.run(*(word.format(specs=shop.specs) for word in words), "--wait", "--json")
    assert (ran.code, error_of(ran)["code"]) == (2, code)
    assert error_of(ran)["details"]["suggested_next_actions"]
    assert not (shop.root / "agentic/features").exists()


@pytest.mark.parametrize(
    ("path", "renamed"),
    [("specs/search.v2.md", "file `specs/search.v2.md`"), ("agentic/features/No ID/spec.md", "folder `agentic/")],
    ids=["a file", "a folder"],
)
def test_a_name_that_is_no_id_is_refused_with_what_to_rename(shop: Shop, path: str, renamed: str) -> None:
    spec = shop.root / path
    spec.parent.mkdir(parents=True)
    spec.write_text("Write it.\n")
    [action] = error_of(shop.run("-fi", path, "--json"))["details"]["suggested_next_actions"]
    assert action.startswith(f"The {renamed.split(maxsplit=1)[0]}'s name is the id: rename the {renamed}")


@pytest.mark.req("AOP-314")
def test_a_run_without_a_provider_is_refused(shop: Shop) -> None:
    shop.wants("good")
    ran = shop.run("-fl", str(shop.specs), "--json", env={"AOP_AGENT_PROVIDER": ""})
    assert (ran.code, error_of(ran)["code"]) == (2, "agent_provider_not_configured")


@pytest.mark.req("AOP-297", "AOP-299", "AOP-304", "AOP-313")
def test_a_dry_run_says_what_would_be_done_and_changes_nothing(shop: Shop) -> None:
    (shop.specs / "checkout.spec.md").write_text("Pay.\n")
    before = git(shop.root, "for-each-ref")
    ran = shop.run(
        *("-fi", str(shop.specs / "checkout.spec.md"), "--dry-run", "--json", "--max-active", "3"),
        *("--agent-model", "big", "--provider-config-env", "MY_AGENT"),
        env={**shop.env, "AOP_AGENT_MODEL": "small", "MY_AGENT": "true"},
    )
    told = json.loads(ran.out)["data"]
    assert ran.code == 0
    assert told["features"] == [{"feature_id": "checkout", "source": "checkout.spec.md", "is_canonical": False}]
    assert told["providers"]["builder"] == {"provider": "custom", "model": "big", "provider_config_ref": "MY_AGENT"}
    assert told["limits"] == {"active_features": 3, "agent_turns": 5, "gate_runs": 2, "turns_a_phase": 8}
    assert git(shop.root, "for-each-ref") == before
    assert not (shop.root / "agentic/features").exists()


@pytest.mark.req("AOP-302")
def test_the_specs_below_a_folder_are_taken_in_the_order_of_their_names(shop: Shop) -> None:
    for name in ("zeta.md", "beta/late.md", "beta/early.md", "alpha.md", "beta/deep/er.md", ".hidden/no.md", "no.txt"):
        (shop.specs / name).parent.mkdir(parents=True, exist_ok=True)
        (shop.specs / name).write_text("Write it.\n")
    told = shop.run("-fl", str(shop.specs), "--dry-run", "--json").json["data"]
    assert [row["feature_id"] for row in told["features"]] == ["alpha", "er", "early", "late", "zeta"]


# --- bringing features to ready_to_merge -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.req("AOP-263", "AOP-310")
@pytest.mark.req("AOP-226", "AOP-237", "AOP-286", "AOP-289", "AOP-295", "AOP-296", "AOP-298", "AOP-309")
def test_every_spec_of_a_folder_becomes_a_feature_that_is_ready_to_merge_and_a_second_run_changes_nothing(
    shop: Shop,
) -> None:
    names = ["one", "two", "three", "four", "five", "six"]
    shop.wants(*names)
    ran = shop.all_at_once("--max-active", "2", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)["data"]
    assert {row["feature_id"]: row["status"] for row in told["features"]} == dict.fromkeys(names, "ready_to_merge")
    assert [step["feature_id"] for step in told["next_steps"]] == sorted(names)
    assert told["questions"] == []
    assert "\nfeatures: " in ran.err
    assert {(shop.root / f".worktrees/{name}/src/{name}.txt").read_text() for name in names} == {
        f"Write {name}.\n" for name in names
    }
    again = shop.all_at_once()
    assert (again.code, shop.events()["patch_applied", "one"]) == (3, 1)
    assert "Nothing changed" in again.err


@pytest.mark.slow
@pytest.mark.req("AOP-126")
@pytest.mark.parametrize("base", ["trunk", "release/1.x"])
def test_a_feature_goes_from_init_to_the_checkout_on_a_base_branch_of_any_name(shop: Shop, base: str) -> None:
    git(shop.root, "rm", "-q", "agentic/orchestrator/policy.yaml")
    git(shop.root, "commit", "-qm", "Without a policy")
    git(shop.root, "branch", "-m", base)
    assert shop.aop("init", "--yes", "--no-run").code == 0
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-qm", "Let AOP manage this repository")
    shop.wants("one")
    assert shop.all_at_once().code == 0
    assert f"Base      {base} at " in shop.aop("review", "one").out
    merged = shop.aop("merge", "one", "--yes", "--leave-checkout")
    assert (merged.code, f"Merged one into {base}" in merged.err) == (0, True)
    assert (shop.aop("sync").code, (shop.root / "src/one.txt").read_text()) == (0, "Write one.\n")
    assert git(shop.root, "branch", "--list", "main", "master") == ""


@pytest.mark.req("AOP-315")
def test_what_a_run_began_with_is_kept_in_the_record_and_shown(shop: Shop) -> None:
    shop.wants("one")
    variable = {**shop.env, "MY_AGENT": shop.env["AOP_CUSTOM_AGENT"]}
    words = ("--agent-model", "big", "--provider-config-env", "MY_AGENT", "--wait")
    assert shop.run("-fl", str(shop.specs), *words, env=variable).code == 0
    told = run_aop(shop.root, "status", "--json").json["data"]["newest_run"]
    chosen = {"provider": "custom", "model": "big", "provider_config_ref": "MY_AGENT"}
    assert told["providers"] == dict.fromkeys(("orchestrator", "planner", "builder", "qa"), chosen)
    assert (told["started_by"], told["features"], told["aop_version"]) == ("person:ada", ["one"], VERSION)
    assert (len(told["config_hash"]), told["limits"]["active_features"]) == (64, 5)
    world = World(shop.root)
    with world.app.record.read() as view:
        (began,) = [entry.event.payload for entry in view.journal(kinds=("run_began",))]
        turns = [entry.event.payload["run"] for entry in view.journal(kinds=("turn_taken",))]
    world.close()
    assert (began, set(turns)) == (told, {told["run"]})


@pytest.mark.req("AOP-297", "AOP-307", "AOP-308")
def test_a_spec_from_elsewhere_is_copied_and_its_source_is_kept_with_the_feature(shop: Shop) -> None:
    shop.wants("one", "two")
    ran = shop.run("-fi", str(shop.specs / "one.md"), "--wait")
    assert (ran.code, shop.statuses()) == (0, {"one": "ready_to_merge"})
    assert (shop.root / "agentic/features/one/spec.md").read_text() == "Write one.\n"
    world = World(shop.root)
    spec = world.ok("feature.state_get", feature_id="one")["front_matter"]["spec"]
    world.close()
    assert spec["source_path"] == "one.md"
    assert len(spec["sha256"]) == 64


@pytest.mark.req("AOP-262", "AOP-301", "AOP-308")
def test_without_a_path_the_specs_of_the_repository_are_taken_where_they_are(shop: Shop) -> None:
    spec = shop.root / "agentic/features/here/spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("Write here.\n")
    ran = shop.run("--wait")
    assert (ran.code, shop.statuses()) == (0, {"here": "ready_to_merge"})
    assert shop.events()["spec_ingested", "here"] == 0


# --- people ------------------------------------------------------------------------------------------------


@pytest.mark.unmeasured
def test_the_words_of_an_agent_or_a_spec_never_reach_the_terminal_as_they_are(shop: Shop) -> None:
    (shop.specs / "steers_you.md").write_text("Write it.\nAnd \u202ebackwards\u202c.\n")
    ran = shop.all_at_once()
    asked = "q1 (steers_you): Clear \\u{1b}[2J and \\u{202e}reverse\\u{202c}?"
    warned = "The spec of `steers_you` has characters that are invisible or imitate others: 2 (the first in line 2)"
    assert (ran.code, asked in ran.err, f"Warning: {warned}" in ran.err) == (4, True, True), ran
    looks = (("inbox",), ("status", "steers_you"), ("logs",), ("inbox", "--json"))
    shown = [ran, *(shop.aop(*words) for words in looks)]
    assert shown[-1].json["data"]["questions"][0]["text"] == "Clear \x1b[2J and \u202ereverse\u202c?"
    for each in shown:
        assert not {"\x1b", "\u202e"} & {*each.out, *each.err}, each


@pytest.mark.slow
def test_a_question_ends_the_wait_and_its_answer_lets_the_feature_go_on(shop: Shop) -> None:
    shop.wants("asks_colour", "one")
    ran = shop.all_at_once()
    assert ran.code == 4
    assert "q1 (asks_colour): Which colour?" in ran.err
    assert "aop answer q1 TEXT" in ran.err
    assert shop.statuses() == {"asks_colour": "planning", "one": "ready_to_merge"}
    listed = run_aop(shop.root, "inbox", env={"COLUMNS": "140"})
    question, approval = listed.out.splitlines()[-2:]
    assert question.endswith(" ago  Which colour?  aop answer q1 TEXT")
    assert approval.endswith(" ago  Ready to merge  aop review one  aop merge one")
    assert run_aop(shop.root, "answer", "q7", "Blue").code == 1
    assert run_aop(shop.root, "answer", "q1", "Blue").code == 0
    twice = run_aop(shop.root, "answer", "q1", "Red", "--json")
    assert (twice.code, error_of(twice)["code"]) == (1, "already_answered")
    shop.wants("two")
    # A run of another spec goes on with what an earlier one left.
    assert shop.run("-fi", str(shop.specs / "two.md"), "--wait").code == 0
    newest = run_aop(shop.root, "status", "--json").json["data"]["newest_run"]
    assert (newest["features"], shop.statuses()["asks_colour"]) == (["asks_colour", "two"], "ready_to_merge")
    assert (shop.root / ".worktrees/asks_colour/src/asks_colour.txt").read_text() == "Write asks_colour.\n"
    assert shop.events()["question_asked", "asks_colour"] == 1


@pytest.mark.slow
def test_a_run_goes_on_with_the_agent_that_it_began_with_and_repeats_no_question_that_was_answered(shop: Shop) -> None:
    shop.wants("asks_colour")
    env = {"AOP_CUSTOM_AGENT": shop.env["AOP_CUSTOM_AGENT"]}
    assert shop.run("-fl", str(shop.specs), "--wait", "--agent-provider", "custom", env=env).code == 4
    assert run_aop(shop.root, "answer", "q1", "Blue").code == 0
    resumed = run_aop(shop.root, "resume", "--wait", env=env)
    assert (resumed.code, shop.statuses()) == (0, {"asks_colour": "ready_to_merge"}), resumed.err
    assert "Which colour?" not in resumed.err
    other = run_aop(shop.root, "resume", "--json", env={**env, "AOP_AGENT_PROVIDER": "oracle"})
    assert (other.code, error_of(other)["code"]) == (2, "unsupported_agent_provider")


@pytest.mark.slow
def test_a_worker_that_talks_nonsense_spoils_only_its_own_feature(shop: Shop) -> None:
    shop.wants("bad", "one")
    ran = shop.all_at_once()
    assert (ran.code, shop.statuses()) == (4, {"bad": "planning", "one": "ready_to_merge"})
    assert "The planner of `bad` failed 3 times in a row. The agent's answer is not a valid proposal" in ran.err
    assert "It begins with: I would rather talk about the weather." in ran.err


@pytest.mark.slow
@pytest.mark.req("AOP-246", "AOP-264")
def test_two_specs_that_want_the_same_file_end_the_wait_with_one_that_waits(shop: Shop) -> None:
    shop.wants("same_one", "same_two")
    ran = shop.all_at_once()
    assert (ran.code, sorted(shop.statuses().values())) == (5, ["blocked", "ready_to_merge"])
    (first,) = [name for name, status in shop.statuses().items() if status == "ready_to_merge"]
    (second,) = {"same_one", "same_two"} - {first}
    decide = f"aop review {first}, aop merge {first}"
    assert f"{first} is ready for review (unblocks {second}): {decide}" in ran.err
    assert f"Both create `src/same.txt`: `{first}` goes first." in ran.out


@pytest.mark.slow
@pytest.mark.req("AOP-053")
def test_a_run_names_first_the_feature_whose_merge_lets_most_others_begin(shop: Shop) -> None:
    shop.wants("alpha", "beta", "gamma")
    for name, other in (("later", "gamma"), ("last", "gamma"), ("next", "beta")):
        (shop.specs / f"{name}.md").write_text(f"---\ndepends_on: [{other}]\n---\nWrite {name}.\n")
    ran = shop.all_at_once("--json")
    assert ran.code == 5, ran.err
    steps = json.loads(ran.out)["data"]["next_steps"]
    assert [(step["feature_id"], step["unblocks"]) for step in steps] == [
        ("gamma", ["last", "later"]),
        ("beta", ["next"]),
        ("alpha", []),
    ]


@pytest.mark.slow
def test_a_spec_that_depends_on_another_begins_when_that_one_is_merged(shop: Shop) -> None:
    shop.wants("base")
    (shop.specs / "later.md").write_text("---\ndepends_on: [base]\n---\nWrite later.\n")
    ran = shop.all_at_once("--json")
    assert (ran.code, shop.statuses()) == (5, {"base": "ready_to_merge"})
    assert json.loads(ran.out)["data"]["features"][1]["status_reason"] == "Waits until merged: base."
    world = World(shop.root)
    world.ok("feature.ready_to_merge", feature_id="base", user_approval_token=world.approval("base"))
    world.close()
    again = run_aop(shop.root, "resume", "--wait", env=shop.env)
    assert (again.code, shop.statuses()) == (0, {"base": "merged", "later": "ready_to_merge"})
    assert (shop.root / ".worktrees/later/src/base.txt").is_file()


# --- in the background, killed, and twice ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.req("AOP-311", "AOP-325")
@pytest.mark.req("AOP-225")
def test_without_wait_the_run_goes_on_in_the_background_and_a_second_one_names_it(shop: Shop) -> None:
    shop.wants("held_one")
    ran = shop.run("-fl", str(shop.specs), "--json")
    pid = json.loads(ran.out)["data"]["pid"]
    assert (ran.code, json.loads(ran.out)["data"]["features"]) == (0, ["held_one"])
    second = shop.all_at_once("--json")
    assert (second.code, error_of(second)["code"]) == (5, "supervisor_running")
    assert f"process {pid}" in error_of(second)["message"]
    (shop.agent / "go").touch()
    until(lambda: holder_of(shop.root / ".aop/supervisor.lock") is None, seconds=SECONDS)
    assert shop.statuses() == {"held_one": "ready_to_merge"}


@pytest.mark.slow
@pytest.mark.req("AOP-336")
def test_a_supervisor_that_lost_its_lock_ends_when_another_leads(shop: Shop) -> None:
    shop.wants("held_one")
    older = shop.started("--wait")
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
    (shop.root / ".aop/supervisor.lock").unlink()
    assert shop.aop("resume").code == 0
    assert older.wait(SECONDS) == 5
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert (shop.statuses(), agents_alive(shop)) == ({"held_one": "ready_to_merge"}, [])


@pytest.mark.slow
@pytest.mark.req("AOP-231", "AOP-255", "AOP-258", "AOP-259")
def test_a_run_that_is_killed_during_a_turn_is_finished_by_the_next_one_and_nothing_happens_twice(shop: Shop) -> None:
    shop.wants("held_one", "held_two", "free")
    logs = [shop.root / f".aop/logs/{name}/planner.log" for name in ("held_one", "held_two")]
    for _ in range(2):
        child = shop.started("--wait")
        until(lambda: all(log.exists() for log in logs), seconds=SECONDS)
        child.send_signal(signal.SIGKILL)
        child.wait()
    (shop.agent / "go").touch()
    finished = shop.all_at_once("--json")
    assert finished.code == 0
    assert {"held_one", "held_two"} <= finished.json["data"]["pending_at_start"]["features"].keys()
    assert shop.statuses() == dict.fromkeys(("free", "held_one", "held_two"), "ready_to_merge")
    events = shop.events()
    for name in ("free", "held_one", "held_two"):
        assert (events["plan_accepted", name], events["patch_applied", name]) == (1, 1)
    # Each was killed in a turn at least once, which counts, although nobody knows what it cost.
    assert min(events["turn_taken", name] for name in ("held_one", "held_two")) >= 3
    left = [path for folder in ("scratch", "tmp", "run") for path in (shop.root / ".aop" / folder).glob("*")]
    assert left == []
    assert len(git(shop.root, "worktree", "list").splitlines()) == 4
    assert not agents_alive(shop)


@pytest.mark.slow
@pytest.mark.req("AOP-316")
def test_a_run_that_is_told_to_stop_stops_and_is_resumed_later(shop: Shop) -> None:
    shop.wants("held_one")
    assert run_aop(shop.root, "stop").code == 3
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
    stopped = run_aop(shop.root, "stop")
    assert (stopped.code, holder_of(shop.root / ".aop/supervisor.lock")) == (0, None)
    until(lambda: not agents_alive(shop), seconds=SECONDS)
    (shop.agent / "go").touch()
    resumed = run_aop(shop.root, "resume", env=shop.env)
    assert resumed.err.startswith("Resumed unfinished features in the background (process ")
    shop.until_supervisor_ended()
    assert (resumed.code, shop.statuses()) == (0, {"held_one": "ready_to_merge"})
    assert run_aop(shop.root, "resume", "--wait", env=shop.env).code == 3
