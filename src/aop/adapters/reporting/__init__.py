"""Reporting: telemetry, the call log and notifications."""
