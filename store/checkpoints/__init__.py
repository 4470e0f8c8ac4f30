"""Checkpoints: what one tells, what it shares with older ones, how they are written and read."""
