"""Languages: the rules that guess the gates of one kind of project each."""
