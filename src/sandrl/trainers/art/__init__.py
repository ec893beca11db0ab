"""Training with OpenPipe's ART: episodes of several turns in sandboxes, and gradient steps by one of its backends.

ART is loaded only after every check that does not need it has passed.
"""
