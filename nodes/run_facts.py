"""Facts about the surrounding run that only its config tells."""

from langgraph.config import get_config

from ..doors.savers import SAVER_KEY
from ..state.context import Context


def can_ask(context: Context) -> bool:
    """Whether a question could be answered: somebody is there, and the run can be resumed."""
    return context.interactive and has_saver()


def has_saver() -> bool:
    """Whether the run is saved as it goes."""
    return bool(get_config()["configurable"].get(SAVER_KEY))


def thread_id() -> str:
    """The thread's id; '' where the graph runs without one."""
    return str(get_config()["configurable"].get("thread_id", ""))


def user_id() -> str | None:
    """The user the run is for, as servers with authentication and callers state it."""
    configurable = get_config()["configurable"]
    found = configurable.get("user_id") or configurable.get("langgraph_auth_user_id")
    return str(found) if found else None
