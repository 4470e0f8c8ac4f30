"""What people are shown of a run while it runs: its events, and what is drawn from them."""
