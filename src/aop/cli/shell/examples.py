"""Examples: command lines for each verb, shown by its help."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": ("aop init", "aop init --yes"),
    "doctor": ("aop doctor", "aop doctor --gates"),
    "demo": ("aop demo", "aop demo tickets --keep"),
    "run": ("aop run --folder specs --agent-provider claude --wait", "aop run --file specs/greeting.md --dry-run"),
    "add": ("aop add --file specs/farewell.md",),
    "watch": ("aop watch",),
    "pause": ("aop pause greeting", "aop pause"),
    "resume": ("aop resume greeting", "aop resume --wait"),
    "retry": ("aop retry greeting --wait",),
    "stop": ("aop stop",),
    "gated": (
        "aop gated run --agent-provider codex",
        "aop gated status",
        'aop gated resume --guidance "Use the existing parser."',
    ),
    "inbox": ("aop inbox", "aop inbox --answered"),
    "answer": ('aop answer q1 "Yes, rename it."',),
    "notify": ("aop notify test",),
    "status": ("aop status", "aop status greeting", "aop status --json"),
    "review": ("aop review greeting", "aop review greeting --html review.html"),
    "approve": ("aop approve greeting",),
    "merge": ("aop merge greeting", 'aop merge greeting --token TOKEN --message "Greet by name"'),
    "redo": ("aop redo greeting",),
    "rebase": ("aop rebase greeting", "aop rebase greeting --resolve"),
    "undo": ("aop undo greeting", "aop undo greeting --to 2"),
    "delete": ("aop delete greeting", "aop delete greeting --worktree --branch"),
    "ticket": ("aop ticket scaffold SHOP-1 --dry-run", "aop ticket review SHOP-1", "aop ticket runs"),
    "outbound": ("aop outbound", "aop outbound install jira gitlab"),
    "agents": ("aop agents", "aop agents install claude", "aop agents test claude"),
    "brain": ("aop brain test --model anthropic:MODEL",),
    "token": ("aop token builder --feature greeting --ttl 8h", "aop token list"),
    "mcp": ("aop mcp config claude --role builder --feature greeting",),
    "serve": ("aop serve --port 4777",),
    "tools": ("aop tools", "aop tools --role planner"),
    "call": ("""aop call feature.init '{"feature_id": "greeting"}'""", "aop call report.dashboard"),
    "logs": ("aop logs --follow", "aop logs --agent greeting"),
    "replay": ("aop replay", "aop replay greeting"),
    "evidence": ("aop evidence verify", "aop evidence bundle greeting"),
    "sync": ("aop sync",),
    "gc": ("aop gc", "aop gc --apply"),
    "redact": ("aop redact build.log",),
}
