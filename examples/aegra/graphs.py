"""The graphs of this package as Aegra loads them: from a file, not from a module."""

from loopwright.graphs.customer_service import graph as customer_service
from loopwright.graphs.plan_execute_verify import graph as plan_execute_verify
from loopwright.graphs.prompt_flow import graph as prompt_flow
from loopwright.graphs.react import graph as react
from loopwright.graphs.router import graph as router
from loopwright.graphs.task_agent import graph as task_agent

__all__ = [
    "customer_service",
    "plan_execute_verify",
    "prompt_flow",
    "react",
    "router",
    "task_agent",
]
