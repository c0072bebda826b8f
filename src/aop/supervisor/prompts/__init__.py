"""What AOP tells a worker of each role where the repository says nothing else."""
