"""People and a build: questions, notes, errors, limits of money and silence."""
