"""Coding agents, one module each; all are `aop.supervisor.workers.Worker`."""
