"""From a ticket to a scaffold, and to a review: missions, plans, prompts, fixed pipelines and the ports they use."""
