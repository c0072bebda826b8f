"""Pages for people: no rules, no state, nothing fetched from anywhere."""
