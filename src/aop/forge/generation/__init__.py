"""Generation: nine missions of a model, each of which ends with a contract."""
