"""Record: the documents, the journal and the operations of one repository."""
