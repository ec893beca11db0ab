"""The gate: the process of a daemon that connects the programs of sandboxes with the network.

It runs outside of sandboxes and serves sockets in their network namespaces (`guest/network.py`). It decides by the name
that a program has asked for and by the address that it leads to (`runtime/network.py`), and reports every
connection to the daemon. It runs no code of sandboxes, and trusts nothing that they send.
"""
