"""A recording keeps what programs in sandboxes download, and gives it to them again without the network.

The recorder stands between a sandbox and the servers: it ends the TLS of the sandbox with a certificate of the user's
own authority, which only sandboxes trust, and speaks HTTP/1.1 to both sides.
"""
