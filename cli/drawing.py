"""`graph`: a graph's drawing, as Mermaid or as plain text."""

from typing import Any

from ..graphs.registry import drawn_graph
from .codes import Code
from .output import Output


def show_graph(output: Output, name: str, *, ascii_: bool) -> int:
    """Print the drawing.

    Raises:
        SettingsError: There is no graph of this name.
    """
    drawn = drawn_graph(name).get_graph()
    output.line(text_drawing(drawn) if ascii_ else drawn.draw_mermaid().rstrip())
    return Code.COMPLETE


def text_drawing(graph: Any) -> str:
    """One block a node: its name, then an arrow to each node that may follow.

    A dotted arrow is one of several ways, chosen at run time.
    """
    blocks = []
    for node in graph.nodes:
        following = [edge for edge in graph.edges if edge.source == node]
        if following:
            blocks.append("\n".join([_label(node), *map(_arrow, following)]))
    return "\n\n".join(blocks)


def _label(node: str) -> str:
    return {"__start__": "START", "__end__": "END"}.get(node, node)


def _arrow(edge: Any) -> str:
    line = "  ···> " if edge.conditional else "  ───> "
    return f"{line}{_label(edge.target)}"
