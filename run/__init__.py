"""How a compiled graph is called: its sync and async doors, a run from its call to its nodes."""
