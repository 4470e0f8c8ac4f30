"""The stand-in where no language model is configured: deterministic, and honest about it.

It cuts the goal into clauses, finds a tool for each by words and fills its arguments by schema
(`matching`), and shows what the tools gave in the form of each role (`tasks`, `model`). It knows no
server, no tool and no scenario, and it does not get cleverer.
"""
