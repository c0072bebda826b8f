"""Web: pages and webhooks over HTTP; no rules, no state."""
