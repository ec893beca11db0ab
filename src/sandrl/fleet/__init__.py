"""Machines of a Ray cluster, and objects on them whose methods a driver calls.

Only this package imports Ray, and it imports nothing of rewards or sandboxes. A node of a cluster holds an object of
a class that the caller names, and whose methods the caller calls.
"""
