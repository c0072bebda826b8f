"""Sandbox: bubblewrap and Landlock, each proven before it is used."""
