"""Broker: sessions of tokens, and the source of each contract that is asked for."""
