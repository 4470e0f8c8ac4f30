"""Which model answers, and the one path by which it is asked; the offline and scripted models."""
