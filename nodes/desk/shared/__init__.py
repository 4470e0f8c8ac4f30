"""What the phases of a desk share."""
