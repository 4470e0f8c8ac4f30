"""Phases: `async def phase(state, runtime) -> Update`; none knows its neighbours."""
