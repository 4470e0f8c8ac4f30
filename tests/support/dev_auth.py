"""What lets users into `langgraph dev`, as the text of its `auth.py`: who they say they are."""

AUTHENTICATE = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None):
    if not authorization:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Who?")
    who = authorization.removeprefix("Bearer ")
    return {"identity": who, "permissions": ["answer_customers"] if who == "eve" else []}
"""

GUARD_STORE = """
@auth.on.store
async def keep_apart(ctx, value):
    namespace = tuple(value.get("namespace") or ())
    if not namespace or namespace[0] == "loopwright":
        raise Auth.exceptions.HTTPException(status_code=403, detail="not by this door")
"""
"""Behind it: what the graphs keep in the store is not read by clients."""
