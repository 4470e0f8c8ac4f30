"""A conversation with a customer: its state, and what is judged of its words without a model."""
