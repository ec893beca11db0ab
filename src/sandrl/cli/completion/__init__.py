"""What the shells offer on TAB.

The design decision: a TAB must not wait for imports. The tree of commands is written down once, in `tree.json`, by
`make generate`, and `make generated` holds it against the code; answering reads that file and, for what only the user's
machine knows, a few files of the state directory, with nothing but the standard library (20 ms of Python instead of
the 150 ms that loading the commands takes). The scripts for the shells hold no words of their own, so an upgrade of
sandrl needs no new ones.
"""
