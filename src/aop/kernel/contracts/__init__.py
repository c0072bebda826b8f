"""Contracts: the JSON Schemas and reference pages generated from the code."""
