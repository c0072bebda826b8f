"""Measure: the tokens that agents are sent, and those that pushing would send."""
