"""A run from its call to its nodes: who calls, what is checked, what it goes on with."""
