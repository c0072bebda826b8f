"""Tools of builds: the rows of the catalogue."""
