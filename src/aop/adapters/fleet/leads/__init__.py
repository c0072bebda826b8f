"""Leads: the repositories of the platform, and workers that lead them."""
