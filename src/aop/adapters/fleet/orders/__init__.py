"""Orders: the leader's side of runs on other machines."""
