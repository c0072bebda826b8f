"""Builds at the terminal: begin, watch, steer, audit, seal."""
