"""Shell completion.

TAB must not wait for imports. So `make generate` writes the tree of commands to `tree.json`, and `make generated`
compares it with the code. An answer reads only this file and, for values of the user's machine, a few files of the
state directory, with the standard library alone (20 ms of Python instead of the 150 ms for loading the commands). The
shell scripts contain no commands, so an upgrade of sandrl needs no new scripts.
"""
