"""Pages of work beside the board: gated workflows, builds, contracts, tickets."""
