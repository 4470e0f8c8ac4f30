"""What people see of a run: events, components, views, messages; pure."""
