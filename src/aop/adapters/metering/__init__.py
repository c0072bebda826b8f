"""A model's endpoint on this machine that counts what passes through it, and closes when the money is gone."""
