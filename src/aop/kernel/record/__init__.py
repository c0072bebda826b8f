"""Record: the documents, the journal and the operations that everything is read from."""
