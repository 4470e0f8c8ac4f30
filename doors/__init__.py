"""The ways into a graph and to what it saves.

`graph`: LoopBuilder and LoopGraph, callable sync and async from anywhere. `background`: the one
event loop that owns what is bound to a loop. `durability`: a database by URL. `savers`: async
methods for sync savers and stores. `checks`: what a saved thread must satisfy before it runs.
"""
