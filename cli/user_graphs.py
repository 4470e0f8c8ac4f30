"""Graphs of the user's own, as `--module` names them."""

import importlib
import logging
import os
import sys
from pathlib import Path

from ..run.graph import LoopGraph
from ..state.errors import LoopwrightError, SettingsError
from ..store.durability import Durability
from ..store.turns import find_queue
from .run import Graph
from .terminal import LOG_FILE

log = logging.getLogger(__name__)


def load_user_graph(named: str, durability: Durability) -> Graph:
    """A graph of the user's: one that keeps its threads itself, or a function that builds one.

    Raises:
        SettingsError: There is none, or nothing of it outlives the process.
    """
    module, _, attribute = named.partition(":")
    if os.getcwd() not in sys.path:  # as `python -m` has it, behind what is installed
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
        graph = found if isinstance(found, LoopGraph) else found(durability)
    except LoopwrightError:
        raise
    except Exception as error:  # whatever a module of the user's raises
        log.exception("--module %s", named)
        msg = (
            f"--module {named} gives no graph ({type(error).__name__}: {error}): name"
            " package.module:graph, or package.module:function, which is given the open database."
            f" The details are in {LOG_FILE}."
        )
        raise SettingsError(msg) from error
    inbox = graph.own_builder.inbox if isinstance(graph, LoopGraph) else None
    theirs = None if inbox is None else find_queue(inbox.journal)
    ours = find_queue(durability.journal)
    if theirs is None or ours is None:
        msg = (
            f"--module {named} gives no graph of this package with durability=open_durability(url):"
            " nothing else can go on in another process."
        )
        raise SettingsError(msg)
    # PgBouncer and the server behind it are one database under two addresses.
    if len({Path(one.database.partition("?")[0]).name for one in (theirs, ours)}) > 1:
        msg = (
            f"--module {named} keeps its threads in {theirs.database!r}, and this worker takes"
            f" turns from {ours.database!r}: name the same database, or a function that is given"
            " the worker's."
        )
        raise SettingsError(msg)
    return graph
