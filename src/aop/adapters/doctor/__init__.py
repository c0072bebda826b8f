"""What `aop doctor` looks at: the machine, the repository, its configuration and gates, and AOP's own state in it."""
