"""Web: pages, webhooks, and the routes and events of forge; no rules, no state."""
