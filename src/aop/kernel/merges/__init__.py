"""Merges: approval tokens, trial merges, conflicts, and merging an approved tree."""
