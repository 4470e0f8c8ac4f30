"""An agent of a graph, with its tools, its memory and its requests."""
