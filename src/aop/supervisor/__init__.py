"""Drives features through the gateway: asks workers for the next proposal, and hands it to the tools that decide."""
