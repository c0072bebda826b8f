"""Exit codes of processes in words; a signal is called by its name."""

from __future__ import annotations

FIRST_SIGNAL = 128
"""A shell reports a process that signal N ended with the exit code 128 + N."""
LAST_SIGNAL = 64

# In the order of their numbers on Linux, from 1 on; those from 32 on have none.
_NAMES = (
    "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM"
    " SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO"
    " SIGPWR SIGSYS"
).split()


def exit_words(code: int | None) -> str:
    """Return `exit code 1`, or `exit code 139 (SIGSEGV)` for a process that a signal ended."""
    name = signal_name(code)
    return f"exit code {code} ({name})" if name else f"exit code {code}"


def signal_name(code: int | None) -> str:
    """Return the name of the signal in an exit code, as a shell (128 + N) or Python (-N) writes it; else nothing."""
    number = -code if code is not None and code < 0 else (code or 0) - FIRST_SIGNAL
    if not 0 < number <= LAST_SIGNAL:
        return ""
    return _NAMES[number - 1] if number <= len(_NAMES) else f"signal {number}"
