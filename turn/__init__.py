"""How a user turn begins and ends, once for all graphs."""
