"""What a model may call, and the one path by which a call runs. Imports nothing above it."""
