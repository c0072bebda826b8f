"""Reviews: the code review report, and asking a model for one."""
