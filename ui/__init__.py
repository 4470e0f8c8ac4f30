"""What front ends draw, and how they are served."""
