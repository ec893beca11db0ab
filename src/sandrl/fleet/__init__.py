"""Machines of a Ray cluster, and objects on them that a driver calls.

The design decision: Ray is known here and nowhere else, and nothing of rewards or sandboxes is known here. A cluster
has nodes; on a node, a function is run once, or an object is held whose methods are called. What these do is the
business of those who name them.
"""
