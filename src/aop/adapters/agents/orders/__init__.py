"""Orders: turns of coding agents that another machine carries out."""
