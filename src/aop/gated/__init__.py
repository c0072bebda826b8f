"""One agent, one red-green-refactor step at a time, judged by the server."""
