"""Prompts in two layers: core templates, one Markdown file a role, and the business context."""
