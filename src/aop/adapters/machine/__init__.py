"""Machine: clock, sockets, background processes and the pager."""
