"""Config words: the meaning of each configuration key, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

KEY_WORDS: Mapping[str, str] = {
    "version": "The version of the format: 1.",
    "commit_policy.allow_commit": (
        "Whether the low-level tool `repo.commit` may commit on a feature's branch. "
        "A feature's own landing is ruled by `merge_policy`."
    ),
    "commit_policy.allow_merge": "Whether the low-level tool `repo.merge` may merge.",
    "patch_policy.enforce_plan": "A patch needs an accepted plan, and touches only the files that it lists.",
    "patch_policy.enforce_allowed_areas": "A patch stays inside the plan's `allowed_areas`.",
    "patch_policy.placement": (
        "`unique`: a hunk with wrong line numbers is applied where its context fits exactly one place; "
        "`exact`: it is refused. Lines that are "
        "added without a line of context are refused either way."
    ),
    "patch_policy.allow_copy": "Whether a patch may copy files.",
    "patch_policy.allow_binary": "Whether an agent's patch may hold binary files; text is sent as text in any case.",
    "patch_policy.allow_symlinks": "Whether a patch may make or change symbolic links.",
    "patch_policy.allow_quoted_names": "Whether a patch may name files whose names git has to quote.",
    "patch_policy.max_patch_bytes": "The largest patch that is looked at.",
    "locks.resources": (
        "The resources that can be locked. `protected:<area>`, with one of `protected_areas` as it is written there, "
        "opens that area to the feature that holds the lock."
    ),
    "locks.contract_to_resource.openapi": "The resource that a plan with `contracts.openapi: modify` needs.",
    "locks.contract_to_resource.events": "The resource that a plan with `contracts.events: modify` needs.",
    "locks.contract_to_resource.db": "The resource that a plan with `contracts.db: migration` needs.",
    "locks.contract_paths.openapi": (
        "Globs of the files that are the HTTP API: a plan that names one and a patch that changes one need the lock, "
        "whatever `contracts` says."
    ),
    "locks.contract_paths.events": "Globs of the files that are event contracts: they need the lock likewise.",
    "locks.contract_paths.db": "Globs of the files that are migrations: they need the lock likewise.",
    "locks.lease_ttl_seconds": "How long a lease lives without a heartbeat.",
    "locks.acquire_behavior": "`wait` for a lock that is held, or `fail` at once.",
    "locks.default_wait_timeout_seconds": "How long `wait` waits if the caller does not say.",
    "locks.acquire_backoff.initial_seconds": "The first pause between two attempts.",
    "locks.acquire_backoff.multiplier": "Each pause is this many times the one before.",
    "locks.acquire_backoff.max_seconds": "No pause between two attempts is longer.",
    "locks.acquire_backoff.jitter": "The share of a pause that is left to chance, 0 to 1.",
    "protected_areas": "Areas that no agent changes.",
    "exclusive_areas": "Areas that only one accepted plan may touch at a time.",
    "steering_files": (
        "Globs of the files that steer the tests. No agent changes them either: a change here can make any gate pass."
    ),
    "permitted_protected_paths": (
        "Areas or globs that a person has permitted by name although they are protected or steer the tests."
    ),
    "required_modes": "The gate modes that a feature must pass; at least one.",
    "required_merge_mode": "The gate mode that the merged tree must pass before it lands.",
    "merge_mode_optional": "Whether a profile may lack the mode that the merged tree must pass.",
    "collision_policy": "`reject` a plan that collides with an accepted one, or `block` it until the other lets go.",
    "config_precedence.policy_hard_constraints": (
        "1: the order is fixed and only written down, and the policy is strongest."
    ),
    "config_precedence.gates_profile_defaults": "2: the gate profile comes after the policy.",
    "config_precedence.plan_verification_overrides": "3: a plan comes last, and can only tighten.",
    "rbac": (
        "For each role, exactly the tools that it may use; a role that is not named has those of the "
        "catalogue. `system` cannot be narrowed."
    ),
    "path_rules.matching": "How areas are written: `glob`, or `repo_prefix` for plain prefixes only.",
    "path_rules.normalize_paths": "Paths are always normalized; it cannot be switched off.",
    "path_rules.allow_symlink_traversal": (
        "Whether a symbolic link that a patch makes may lead out of the repository, or through another link."
    ),
    "execution.default_step_timeout_seconds": "The time limit of a gate step that names none.",
    "execution.retry_policy.transient_max_retries": (
        "How often a step is run again after the machine, not the change, made it fail."
    ),
    "execution.retry_policy.transient_error_codes": "The codes that say that it was the machine.",
    "execution.retry_policy.non_retryable_error_codes": "The codes that are never tried again.",
    "execution.env_allowlist": (
        "The environment variables that reach gate steps; all others are dropped, and so are paths into"
        " AOP's own environment."
    ),
    "execution.sandbox": (
        "`auto`: the best sandbox that proves itself, and the verdict says which; `require`: refuse to run "
        "without one; `off`."
    ),
    "execution.sandbox_read": "Folders of this machine, from `/` or `~/`, that sandboxed steps may read.",
    "execution.sandbox_write": "Folders of this machine that sandboxed steps may write, such as a package cache.",
    "execution.network": "`none`, or `host` where a gate needs the network.",
    "execution.provider_tools": (
        "Whether the provider of an agent's model may search the web, fetch addresses, run code and call servers for "
        "it. `deny`: such a tool is taken out of the agent's requests, and a request that asks for nothing else, or "
        "has a part that AOP does not know, is refused. `allow`: they pass."
    ),
    "execution.limits.memory_bytes": "The memory of a step; `0`, here and in the other limits, means no limit.",
    "execution.limits.processes": "How many processes and threads a step may have at a time.",
    "execution.limits.file_bytes": "The largest file that a step may write.",
    "execution.limits.open_files": "How many files each process of a step may have open.",
    "execution.limits.tmp_bytes": (
        "The size of each private folder (`/tmp`, home and the like) in the bubblewrap sandbox."
    ),
    "execution.max_log_bytes": "The longest log of a step that is kept; the middle is dropped.",
    "implementation.workspace": "How AOP's own workspace is built; `uv` is the only value.",
    "testing.framework": "The test framework of AOP's own tests; `pytest` is the only value.",
    "testing.coverage.minimums.line": "The line coverage below which a profile with a coverage parser fails.",
    "testing.coverage.minimums.branch": "The branch coverage below which a profile with a coverage parser fails.",
    "testing.coverage.targets.line": "The line coverage that is aimed at; only reported.",
    "testing.coverage.targets.branch": "The branch coverage that is aimed at; only reported.",
    "testing.coverage.skip_unsupported_parser": (
        "Whether a report that no parser can read is skipped instead of refused."
    ),
    "testing.allow_fewer_tests": (
        "Whether a run in which a test of the base is missing, and the plan does not name it, passes, with a finding, "
        "instead of failing."
    ),
    "gates.required[].paths": "Paths, folders or patterns; a change that touches one of them needs the profile.",
    "gates.required[].profile": (
        "The gate profile that such a change must pass. A plan may name one that has all its steps, reports and "
        "thresholds and more, never one that has less. See [gates](gates.md#the-policy-chooses-the-proof)."
    ),
    "testing.allow_flaky_gates": (
        "Whether gates that failed on a tree and pass on it later pass, with a finding, instead of failing "
        "until the tree changes."
    ),
    "gates.qa_after": (
        "The gates that a feature must pass to get from `building` to `qa`: `fast`, or `full` where a tester is to see "
        "only what all of them prove."
    ),
    "gates.base_tests": (
        "When the tests of the base run once more, as the base has them, on the code of a feature, in the `full` and "
        "`merge` gates: `changed` where it touches tests, their helpers or their configuration, `always`, or `off`."
    ),
    "gates.test_files": "Which files are tests, their helpers and their data; the base provides them for that run.",
    "merge_policy.require_user_approval": "Whether a person must approve the very tree that lands.",
    "merge_policy.allowed_strategies": "How a feature may land: `merge_commit`, `squash` or `rebase`; at least one.",
    "approval.signers": (
        "The people who may approve, as lines of OpenSSH's allowed signers: `NAME KEYTYPE KEY`. If there is one, each "
        "approval is signed with such a key by `aop approve --key FILE`, and checked again at the merge."
    ),
    "merge_policy.checkout": (
        "What your own `aop merge` does where the base branch is checked out: `follow` brings index and files to the"
        " merge, and stops before it if a local change would be lost; `leave` leaves them for `aop sync`; `ask` asks."
    ),
    "worktree.base_branch": "The branch that features start from and land on.",
    "worktree.copy": (
        "Files of your checkout that every worktree gets a copy of, as paths or globs. Never tracked files."
    ),
    "worktree.link": (
        "Files or folders of your checkout that every worktree gets a link to, such as `node_modules`;"
        " sandboxed steps can read them."
    ),
    "worktree.setup[].cmd": "A command that makes a worktree ready, word by word, run before its first gates.",
    "worktree.setup[].inputs": (
        "Globs of tracked files; a change of one runs the command again, without the network if a feature made it."
    ),
    "worktree.setup[].timeout_seconds": "The command's own time limit.",
    "worktree.setup[].network": (
        "`host`: the command and all code that it runs may use the network, to fetch packages; `none`: it may not."
    ),
    "worktree.ports": "How many ports each feature has for itself: `AOP_PORT_0` and so on.",
    "worktree.first_port": "Where the ports of features begin.",
    "planning.require_obligations": (
        "Whether a plan must account for every obligation of its spec. See [obligations](obligations.md)."
    ),
    "gated.master_plan": "Where the plan of all pull requests is that an agent works through.",
    "gated.fetch_base": ("Whether the base branch is updated from its remote before a new branch begins."),
    "gated.preflight_profile": (
        "The gate profile that makes a step done; empty: `preflight`, or `default` where there is none."
    ),
    "gated.hypothesize_max": "Up to how many failed attempts the advice is to think and fix.",
    "gated.instrumentation_max": "Up to how many failed attempts the advice is to add logging.",
    "gated.unlock_scope_reduction_at": "After how many failed attempts `request_scope_reduction` opens.",
    "gated.unlock_escalation_at": "After how many failed attempts `escalate_for_external_help` opens.",
    "gated.review_rounds": "How often findings are sent back, or a review fails, before a person is called.",
    "gated.review_command": (
        "The reviewer, word by word: it reads the JSON file that `AOP_REVIEW_INPUT` names, and prints a report. Empty:"
        " the model of `review_model`, and without one nothing is approved. See [gated](gated.md)."
    ),
    "gated.review_model": (
        "The reviewer, if it is a model: `provider:model` as in [models](models.md), or `default` for"
        " `CODE_REVIEW_LLM_MODEL_PRIORITY` or `AOP_MODELS` of the environment."
    ),
    "gated.blocking_severity": "From which severity on a finding has to be dealt with; `INFO`: all.",
    "gated.test_globs": "Which files are tests.",
    "gated.red_for_the_right_reason": "Whether a test has to fail by an assertion, where gates read a JUnit report.",
    "gated.frozen_tests": "Whether a test that went red is changed only with a person's leave.",
    "gated.the_fix_matters": "Whether tests that went red have to fail again without the fix, where gates read one.",
    "forge.max_turns": "How many replies a model has for one contract.",
    "forge.turns": "Other limits for single contracts, such as `physics: 20`.",
    "forge.snowball": "The contracts that are written with everything in one prompt instead of by tools.",
    "forge.build.max_usd": "The cap of one build in US dollars; 0: none.",
    "forge.build.warn_at": "The share of the cap at which a warning is given.",
    "forge.build.max_questions": "How many questions a build may ask; then it decides by itself.",
    "forge.build.question_minutes": "How long a question of a build waits for an answer.",
    "forge.build.pause_minutes": "How long a paused build is kept before it is abandoned; 0: for ever.",
    "forge.build.attempts": "How often a sign-off may fail for the same reason before the build stops and asks.",
    "forge.build.turns": "How many replies a model has for one build.",
    "forge.build.compact_at_tokens": "From how many tokens on a conversation is compacted.",
    "forge.build.beat_seconds": "How often a running build shows that it is alive.",
    "forge.build.warn_seconds": "After how long without a sign of life a warning is given.",
    "forge.build.fail_seconds": "After how long without a sign of life a build is paused.",
    "forge.build.test_seconds": "The time limit of `run_tests`, if the call names none.",
    "forge.build.syntax_seconds": "The time limit of `check_syntax`.",
    "forge.build.command_seconds": "The time limit of `run_command`, if the call names none.",
    "forge.build.longest_seconds": "The longest time limit that a call may name.",
    "forge.build.commands": "The beginnings of the commands that an agent of a build may run.",
    "forge.build.rounds.scout": "How many replies the scout has in one conversation.",
    "forge.build.rounds.coder": "How many replies the coder has in one conversation; the next one goes on.",
    "forge.build.rounds.auditor": "How many replies the auditor has in one conversation.",
    "forge.build.rounds.fixer": "How many replies the fixer has in one conversation.",
    "supervisor.max_active_features": "How many features are worked on at a time; the others wait.",
    "supervisor.max_parallel_gate_runs": "How many gate runs run at a time.",
    "supervisor.max_parallel_agent_turns": "How many turns agents take at a time, over all features.",
    "supervisor.max_iterations_per_phase": (
        "How many turns a phase has before a person is asked; when they are used up once more, the feature has failed."
    ),
    "supervisor.turn_idle_seconds": "How long an agent may print nothing, neither an answer nor a log; `0`: no limit.",
    "supervisor.turn_spawn_seconds": "How long an agent's command may take until it has begun.",
    "supervisor.turn_timeout_seconds": "How long an agent's turn may take.",
    "supervisor.collision_strategy": (
        "What the supervisor does with a plan that collides: `revise` it once and then wait, `wait` at once, "
        "`ask` a person how to plan, or let a `model` of `AOP_MODELS` choose among these."
    ),
    "supervisor.qa": "QA takes a turn if full gates fail (`on_failure`), or for each feature before them (`always`).",
    "supervisor.sessions": "A role's next turn is a new session (`fresh`), or goes on with its last one (`resume`).",
    "cost.max_usd_per_feature": (
        "The cost in US dollars at which a feature takes no more turns until a person raises the cap; "
        "`0`, here and in the other caps, means no cap."
    ),
    "cost.max_usd_per_run": "The cost at which no feature of a run takes another turn.",
    "cost.max_tokens_per_feature": "The same for a feature's input and output tokens.",
    "cost.max_tokens_per_run": "The same for the input and output tokens of a run.",
    "inbox.question_timeout_hours": (
        "When an unanswered question is closed: with the default answer that it states, or else its feature "
        "is blocked. `0`, here and in the other limits, is never."
    ),
    "inbox.escalation_timeout_hours": "When the same happens to a question about a worker that makes no progress.",
    "inbox.authorisation_timeout_hours": ("When an unanswered authorisation is closed; its feature is blocked."),
    "inbox.remind_after_minutes": "How long after a question its first reminder comes; `0`: none ever.",
    "inbox.remind_multiplier": "Each wait for the next reminder is this many times the one before.",
    "inbox.remind_max_minutes": "No wait for the next reminder is longer.",
    "notifications.targets.<name>.type": ("How people are reached: `bell`, `desktop`, `webhook`, `slack` or `ntfy`."),
    "notifications.targets.<name>.url_env": ("The environment variable that holds the address."),
    "notifications.targets.<name>.secret_env": (
        "The environment variable that holds the key that a `webhook` is signed with, or the token of `ntfy`."
    ),
    "notifications.targets.<name>.events": (
        "The events that this target gets: `question`, `reminder`, `ready`, `blocked`, `failed`."
    ),
    "notifications.timeout_seconds": ("How long one attempt to reach a target may take."),
    "notifications.attempts": ("How often a target that cannot be reached is tried."),
    "notifications.retry_after_seconds": ("The first pause between two attempts; each is twice the one before."),
    "thresholds": "Figures of your own, by name; they are part of the configuration's hash.",
    "profiles.<name>.modes.<mode>[].name": (
        "The step's name: letters, digits, `.`, `_`, `-`; part of its log's file name; once in a mode, "
        "whatever its case."
    ),
    "profiles.<name>.modes.<mode>[].cmd": (
        "The command, word by word. No shell reads it; a word is not empty and has no line end."
    ),
    "profiles.<name>.modes.<mode>[].cwd": "The folder that the step runs in, from the root.",
    "profiles.<name>.modes.<mode>[].env": (
        'Variables that are added to the allow-listed environment; values are strings, so write `CI: "1"`.'
    ),
    "profiles.<name>.modes.<mode>[].timeout_seconds": "The step's own time limit.",
    "profiles.<name>.modes.<mode>[].outputs": (
        "Paths or patterns of files that the step leaves for those after it, such as `dist/**`; everything else that "
        "it leaves is undone. See [gates](gates.md#each-step-begins-on-the-tree)."
    ),
    "profiles.<name>.parsers.coverage.type": (
        "The format of the coverage report: `none`, `lcov`, `junit_xml`, `jacoco_xml` or `cobertura_xml`; "
        "`custom` is reserved."
    ),
    "profiles.<name>.parsers.coverage.path": "Where the steps leave the coverage report, from the root.",
    "profiles.<name>.parsers.coverage.optional": "Whether the run may end without the coverage report.",
    "profiles.<name>.parsers.coverage.plugin": (
        "Reserved for `custom`: this version has no plugins, and refuses the run with `unsupported_parser`."
    ),
    "profiles.<name>.parsers.coverage.modes": (
        "The modes that must leave the coverage report; in others it is not read."
    ),
    "profiles.<name>.parsers.tests.type": (
        "`junit_xml`: files with the outcome of each test; `go_test_json`, `cargo_test`: what a step with `go test "
        "-json` or `cargo test` prints. An exit code 0 without a report is a failure, and so is a test of the base "
        "that is missing."
    ),
    "profiles.<name>.parsers.tests.path": (
        "Where the steps leave the files of `junit_xml`, from the root; a glob sums up several of them."
    ),
    "profiles.<name>.parsers.tests.step": "The step whose output is the report.",
    "profiles.<name>.parsers.tests.modes": "The modes that must leave the report of the tests.",
    "profiles.<name>.thresholds.coverage_line_min": (
        "The least line coverage, 0 to 1; it cannot be below the policy's."
    ),
    "profiles.<name>.thresholds.coverage_branch_min": (
        "The least branch coverage, 0 to 1; it cannot be below the policy's."
    ),
    "profiles.<name>.thresholds.coverage_line_target": "The line coverage that is aimed at.",
    "profiles.<name>.thresholds.coverage_branch_target": "The branch coverage that is aimed at.",
    "profiles.<name>.capabilities": "The parser types that this profile can use.",
    "profiles.<name>.parallel": "Whether the steps of a mode run at the same time.",
    "roles.planner.system_prompt_path": "The planner's system prompt, a path from the root.",
    "roles.builder.system_prompt_path": "The builder's system prompt, a path from the root.",
    "roles.qa.system_prompt_path": "The tester's system prompt, a path from the root.",
    "missing_prompt_behavior": (
        "For a prompt file that is absent: `ignore` takes the prompt that AOP brings along, `error` stops."
    ),
    "login": (
        "Which agents (`claude`, `codex`, `gemini`) work with their own log-in on this machine instead of a key:"
        " `{claude: true}`."
    ),
    "runtime.default_provider": (
        "The coding agent: one of `aop agents`, `custom`, or `model`; command line and environment win."
    ),
    "runtime.default_model": "The provider's model.",
    "runtime.provider_config_env": (
        "The name of the environment variable that holds the provider's settings; never the settings themselves."
    ),
    "runtime.role_provider_overrides.<name>.provider": (
        "The provider of one role: `orchestrator`, `planner`, `builder` or `qa`."
    ),
    "runtime.role_provider_overrides.<name>.model": "The model of this role.",
    "runtime.role_provider_overrides.<name>.provider_config_env": (
        "The environment variable with the provider's settings for this role."
    ),
    "providers.<name>.title": "The name that people know it by.",
    "providers.<name>.command": "The program and its first words; it reads its prompt from standard input.",
    "providers.<name>.acp": "In place of `command`: the program and its words, if it speaks the Agent Client Protocol.",
    "providers.<name>.tried": "Whether AOP's own tests start it; only shown.",
    "providers.<name>.package.name": "The npm package that `aop agents install` installs.",
    "providers.<name>.package.version": "The version of the package.",
    "providers.<name>.endpoint.family": "The protocol of its models: `anthropic`, `openai` or `google`.",
    "providers.<name>.endpoint.url": "The address that the meter forwards to.",
    "providers.<name>.endpoint.url_variable": "The environment variable with which you set another address.",
    "providers.<name>.key_variable": "The environment variable that holds the key; never the key itself.",
    "providers.<name>.default_model": "The model that it takes by itself: to show it, and for its price.",
    "providers.<name>.side_models": "The models that it asks beside that one, for their prices.",
    "providers.<name>.login.files": "The files in your home that its own log-in leaves.",
    "providers.<name>.prompt": "A line of the prompt: how its model finds the tools of AOP.",
    "providers.<name>.values": "Names for `{{...}}`: the first text whose conditions (`when`) hold is used.",
    "providers.<name>.words": "Arguments of a `command`; a group with conditions is `{when: [...], words: [...]}`.",
    "providers.<name>.environment": "Variables of the program.",
    "providers.<name>.files": "Files to write into its private home first, by their path in it.",
    "providers.<name>.session_folder": "The folder of its private home with its sessions, for `supervisor.sessions`.",
}
"""A key that holds a value, by its path; `<name>` is a key that the user chooses, `<mode>` any of the three."""

SECTION_WORDS: Mapping[str, str] = {
    "commit_policy": "What the low-level tools on commits may do.",
    "patch_policy": "What a patch may be.",
    "locks": "What can be locked, and how long.",
    "locks.contract_to_resource": "Which lock each kind of contract needs.",
    "locks.contract_paths": "Which files are contracts.",
    "locks.acquire_backoff": "How the pauses between two attempts grow.",
    "config_precedence": "Which file wins.",
    "path_rules": "How paths and areas are read.",
    "execution": "How gate steps are run.",
    "execution.retry_policy": "When a step is run again.",
    "execution.limits": "How much of the machine one step may use.",
    "implementation": "How AOP itself is built.",
    "testing": "What is demanded of tests.",
    "gates": "What gate runs demand beyond their steps.",
    "gates.required": "Gate profiles that changes of some paths must pass, whatever their plans name.",
    "testing.coverage": "What is demanded of coverage.",
    "testing.coverage.minimums": "Below these a run fails.",
    "testing.coverage.targets": "What is aimed at.",
    "approval": "Who may approve.",
    "merge_policy": "How features land.",
    "worktree": "What features are cut from, and what their worktrees are given.",
    "worktree.setup": "What makes a worktree ready, in this order.",
    "notifications": "How people are told that they are needed.",
    "notifications.targets": "The ways to reach people, by a name of your own.",
    "inbox": "How long people are waited for, and how often they are reminded.",
    "cost": "What the turns of agents may cost before a person is asked.",
    "planning": "What is demanded of plans.",
    "forge": "How models write the contracts of a project, and build it.",
    "forge.build": "The limits of a build.",
    "forge.build.rounds": "The limits of a team.",
    "gated": "How one agent works through a plan, one judged step at a time.",
    "supervisor": "How much is done at a time, and how often it is tried.",
    "profiles": "The gate profiles, by name.",
    "profiles.<name>.modes": "The steps of each mode.",
    "profiles.<name>.modes.fast": "The steps that prove a change while it is being built.",
    "profiles.<name>.modes.full": "The steps that prove the whole feature.",
    "profiles.<name>.modes.merge": "The steps that prove the merged tree.",
    "profiles.<name>.parsers": "Which reports the steps leave.",
    "profiles.<name>.parsers.coverage": "The report of the coverage.",
    "profiles.<name>.parsers.tests": "The report of the tests.",
    "profiles.<name>.thresholds": "What this profile demands beyond the policy.",
    "roles": "What each role is told.",
    "roles.planner": "What the planner is told.",
    "roles.builder": "What the builder is told.",
    "roles.qa": "What the tester is told.",
    "runtime": "Which coding agent does the work.",
    "runtime.role_provider_overrides": "What single roles use in place of the defaults.",
    "providers": "Coding agents as rows of data: yours, and your own rows for those that AOP ships.",
    "providers.<name>.package": "The npm package that it is installed from.",
    "providers.<name>.endpoint": "Where its models are; without it there is no meter.",
    "providers.<name>.login": "Its own log-in.",
}
"""A key that holds other keys."""
