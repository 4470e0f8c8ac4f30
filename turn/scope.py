"""Facts about the surrounding run that only its config tells."""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from ..doors.savers import SAVER_KEY, ThreadedSaver
from ..state.context import Context
from ..state.session import SESSION_KEY, Session


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


def session() -> Session:
    """What hooks brought at the start of this run."""
    found = get_config()["configurable"].get(SESSION_KEY)
    return found if isinstance(found, Session) else Session()


def place() -> str:
    """The nodes around the running node's graph, as `outer|inner`; "" where it is the outermost.

    Without the ids of their tasks, which are others where a graph around it has lost a step.
    """
    namespace = str(get_config()["configurable"].get("checkpoint_ns", ""))
    return "|".join(step.partition(":")[0] for step in namespace.split("|")[:-1])


def lasting(store: BaseStore | None) -> bool:
    """Whether a store keeps what it is given for as long as the run is saved."""
    return store is not None and not (isinstance(store, InMemoryStore) and saved_durably())


def saved_durably() -> bool:
    """Whether the run is saved somewhere that outlives the process."""
    saver = get_config()["configurable"].get(SAVER_KEY)
    if isinstance(saver, ThreadedSaver):
        saver = saver.inner
    return bool(saver) and not isinstance(saver, InMemorySaver)
