"""Phases: `async def phase(state, runtime) -> Update`; none knows what comes before or after it."""
