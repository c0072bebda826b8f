"""Doubles of ports that pass the conformance suite of the real adapter."""
