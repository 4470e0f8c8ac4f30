"""A human takes the thread over, and gives it back."""
