"""Metering: a proxy that counts and caps an agent's requests to its model."""
