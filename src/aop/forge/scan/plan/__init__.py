"""Renovation plan: versions, and what to renew first."""
