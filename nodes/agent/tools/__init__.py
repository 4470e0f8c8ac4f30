"""The tools of the package that an agent is offered."""
