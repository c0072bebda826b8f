"""Web: pages of people, webhooks, routes and events of forge; no rules, no state."""
