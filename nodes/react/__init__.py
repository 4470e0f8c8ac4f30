"""The phases of react."""
