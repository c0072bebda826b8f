"""Tools of the inbox: questions, answers, requests for a guarded path, notices."""
