"""Adapters: the environments and reward functions of other frameworks, scored in sandboxes of sandrl.

The design decision: an adapter translates a framework's row into a problem and a result into what the framework takes,
and nothing else. All of them score with one backend (`backend`), in this process or with a running `sandrl serve`. A
framework is the user's own: it is imported on use, and importing an adapter needs none.
"""
