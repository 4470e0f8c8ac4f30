"""The one path by which a tool call runs.

Its files in reading order:

toolbox       the tools, servers and policy of one graph
gate          from a model's message to calls that are judged, and scheduled or asked about
policy        which calls run, which are refused, which a human is asked about
approval      a human's word on a call
path          from planned calls to their tool messages: the list of wrappers
call_records  one call: as it waits, on its way, and as it ended

The wrappers, as `list_wrappers` in `path` lists them:

guard         the tables of a policy
limits        calls that go round in circles; what the run may still call
sending       calls of the package's own tools; at the end the call itself, within its deadline
reuse         reads that are answered from memory
journal       writes: known, in doubt, or to be sent
result_store  results that are too long to be shown
after_tool    AfterTool hooks
"""
