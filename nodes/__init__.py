"""Phases, one a file: `async def phase(state, runtime) -> Update`; and what phases share.

None knows which phase comes before or after it. A file without a phase says what it is for.
"""
