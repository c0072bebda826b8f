"""Locks: fenced leases on shared resources, granted, renewed and freed."""
