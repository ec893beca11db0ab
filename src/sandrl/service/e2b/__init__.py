"""The API of E2B, as its SDKs speak it: sandboxes, and in them processes and files.

A client uses two addresses, which are both that of the service: the API of sandboxes (`/sandboxes`), and `envd`, the
program in each of E2B's sandboxes, which speaks Connect (`connect.py`). Here envd is the service itself: a process is
an attached program of the provider, and files are read and written by commands.
"""
