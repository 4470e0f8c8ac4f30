"""The stand-in where no language model is configured: deterministic, and honest about it.

It splits the goal (`plan`), ranks the offered tools and fills their arguments from their schemas
(`tools`, `arguments`), reads results (`answers`) and judges by them (`verdict`). It knows no
server, no tool and no scenario.
"""
