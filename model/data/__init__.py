"""Data sets: files, named sets and hub ids, read into splits of labelled texts."""
