"""The stand-in where no language model is configured: deterministic, and honest about it.

It splits the goal (`plan`), ranks the offered tools and fills their arguments from their schemas
(`tools`, `arguments`), reads results (`answers`) and judges by them (`verdict`). Where phases share
their messages (`talk`), it thinks, acts and observes by the same rules (`react`). A plan of tool
calls is made from the goal at once (`flow`, `handing_on`) and answered from its results
(`flow_ends`). It knows no server, no tool and no scenario.
"""
