"""The user's project as `aop init` finds it: its base branch, its language, and the gates that it seems to have."""
