"""Supervision policy: a pure function from state and event to actions."""
