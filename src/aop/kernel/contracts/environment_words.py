"""Environment words: the variables that AOP reads, and the meaning of each."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLES: Mapping[str, str] = {
    "AOP_ACTOR": "The name that the journal gives to the person at the terminal (default: `USER`).",
    "AOP_HUB": "The git repository that has the work for other machines: file://, https://, ssh:// (default: none).",
    "AOP_DATABASE": "The PostgreSQL that has the record, `postgresql://USER@HOST:PORT/NAME` (default: a file).",
    "AOP_REPOSITORY": "The name of this repository in that database (default: that of its folder).",
    "AOP_WORKER": "Set by a worker for the process that leads a repository for it; not meant for you.",
    "AOP_SIGNING_KEY": "The SSH key that signs your approvals, where `approval.signers` of the policy names signers.",
    "AOP_TOKEN": "The token of the agent that `aop mcp` serves.",
    "AOP_AGENT_PROVIDER": "The coding agent, if `--agent-provider` names none.",
    "AOP_AGENT_MODEL": "The agent's model, if `--agent-model` names none.",
    "AOP_PROVIDER_CONFIG_ENV": "The name of the variable that holds the agent's settings.",
    "AOP_CUSTOM_AGENT": "The command of your own agent, for the provider `custom`.",
    "AOP_AGENTS_HOME": "The folder that `aop agents install` installs into.",
    "ANTHROPIC_API_KEY": "The key for models and agents of Anthropic.",
    "OPENAI_API_KEY": "The key for models and agents of OpenAI.",
    "GEMINI_API_KEY": "The key for models and agents of Google.",
    "AOP_MODELS": "The models that AOP itself asks, such as `anthropic:MODEL`, in order of preference.",
    "AOP_COMPATIBLE_BASE_URL": "The address of a server that speaks OpenAI Chat Completions.",
    "AOP_COMPATIBLE_API_KEY": "The key for that server.",
    "AOP_MODEL_TIMEOUT_SECONDS": (
        "The time limit of one request to a model (default: 120); for a coding agent, how long its provider may be"
        " silent (default: 300)."
    ),
    "AOP_MODEL_MAX_OUTPUT_TOKENS": "The longest answer of a model (default: 16384).",
    "AOP_MODEL_THINKING": "How much a model thinks: `off`, `low`, `medium` or `high`.",
    "AOP_MODEL_RETRIES": "How often the last model of the list is retried (default: 2).",
    "AOP_MODEL_PRICES": "A file of prices, which replace AOP's own.",
    "AOP_MODEL_RECORD": "A file to which every exchange with a model is added, without secrets.",
    "AOP_MODEL_REPLAY": "A recording that answers instead of all models.",
    "AOP_LOCAL_FOLDER": "The folder of the ticket system `LOCAL`.",
    "AOP_OUTBOUND_HOME": "The folder that `aop outbound install` installs into.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Where spans are sent; without it none are made.",
    "NO_COLOR": "Switches colours off.",
    "PAGER": "The program that pages long texts.",
    "VISUAL": "The editor that `aop new` opens.",
    "EDITOR": "The same, if `VISUAL` names none (default: `vi`).",
    "COLUMNS": "The width of tables and of help, instead of the terminal's own.",
}
"""The systems of tickets have further ones, which `aop outbound` lists."""
