"""Manifests and lock files, read without running anything."""
