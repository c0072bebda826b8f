"""Supervision: what `aop run` and `aop resume` share."""
