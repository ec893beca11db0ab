"""Machines of a Ray cluster, and objects on them whose methods a driver calls.

Only this package imports Ray, and it imports nothing of rewards or sandboxes. On a node of a cluster, it runs a
function once, or holds an object whose methods are called; the caller names both.
"""
