"""Vendors: the catalogue of known coding agents and their installation."""
