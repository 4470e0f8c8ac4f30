"""The one path by which a tool call runs.

Its files in reading order:

toolbox       the tools, servers and policy of one graph
gate          from a model's message to calls that are judged, and scheduled or asked about
policy        which calls run, which are refused, which a human is asked about
approval      a human's word on a call
path          from planned calls to their tool messages
call_records  what is known of a call, before, while and after it runs
journal       what the journal says of a write: known, in doubt, or to be sent
reuse         reads that are answered from memory
one_call      one call within its deadline
results       what a tool gave back, in one shape
"""
