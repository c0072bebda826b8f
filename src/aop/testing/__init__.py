"""Doubles that AOP ships, each of which passes the conformance suite of its port."""
