"""Whatever names the graphs names those of the registry."""

import json
from pathlib import Path

import loopwright
from loopwright.graphs.registry import REGISTRY
from loopwright.state.roles import roles_of


def test_public_names_langgraph_json_and_roles_follow_the_registry():
    declared = json.loads((Path(loopwright.__file__).parent / "langgraph.json").read_text())
    assert declared["graphs"] == {
        name: {"path": f"loopwright.graphs.{name}:graph", "description": entry.description}
        for name, entry in REGISTRY.items()
    }
    built = {name for name in loopwright.__all__ if name.startswith("build_")}
    assert built == {f"build_{name}" for name in REGISTRY}
    for name, entry in REGISTRY.items():
        assert getattr(loopwright, f"build_{name}") is entry.build
        assert entry.graph.name == name
        assert roles_of(name)
