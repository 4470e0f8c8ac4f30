"""Graphs: topology only. One file a graph, `builder` and `graph` at module level."""
