"""`aop completion`: print a script that completes commands in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal

_BASH = """\
# Completion of aop for bash. Load it with: source <(aop completion bash)
_aop() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("${word%%$'\\t'*}")
    done < <(aop __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _aop aop
"""
_ZSH = """\
#compdef aop
# Completion of aop for zsh. Load it with: source <(aop completion zsh)
_aop() {
    local line
    local -a rows
    while IFS= read -r line; do
        rows+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(aop __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#rows} )); then
        _describe -V aop rows
    else
        _files
    fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u }
compdef _aop aop
"""
_FISH = """\
# Completion of aop for fish. Load it with: aop completion fish | source
function __aop_complete
    set -l words (commandline -opc)
    set -l rows (aop __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $rows) -gt 0
        printf '%s\\n' $rows
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c aop -f -a '(__aop_complete)'
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""Each asks `aop __complete` for the words, with a tab before the meaning of each."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell that the script is for")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script."""
    script = SCRIPTS[arguments.shell]
    return terminal.result({"shell": arguments.shell, "script": script}, script.rstrip("\n"))


def complete(words: Sequence[str], terminal: Terminal) -> int:
    """Print what the last word can become: one word on each line, with its meaning after a tab."""
    from aop.cli.learn.candidates import candidates

    rows = candidates(words)
    if rows:
        terminal.text("\n".join(f"{word}\t{about}" for word, about in rows))
    return Exit.OK
