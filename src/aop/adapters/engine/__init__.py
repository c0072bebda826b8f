"""The durable engine behind the `Engine` port."""
