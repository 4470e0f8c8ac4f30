"""How a compiled graph is run and saved: sync and async doors, the background loop, databases."""
