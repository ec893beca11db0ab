"""Training with OpenPipe's ART: episodes of several turns in sandboxes, and gradients by one of its backends.

Nothing of ART is loaded before everything has been checked that can be checked without it.
"""
