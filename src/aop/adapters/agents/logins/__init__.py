"""Log-ins: coding agents with their own log-ins, and the proxy to their vendors."""
