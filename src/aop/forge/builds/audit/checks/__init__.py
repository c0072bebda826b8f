"""Checks of an audit: code, scope, history, runs, dependencies, routes."""
