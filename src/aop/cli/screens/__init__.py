"""Screens: tables, colours and ages of what people look at."""
