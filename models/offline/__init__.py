"""The stand-in where no language model is configured: deterministic, and honest about it.

It cuts the goal into clauses, finds a tool for each by words and fills its arguments by schema
(`matching`), and shows what the tools gave. `tasks` and `react` do that for the roles of the
graphs; `model` reads who is asked. It knows no server, no tool and no scenario, and it does not
get cleverer: planning well is what language models are for.
"""
