"""Scripts that a person with a GPU runs to verify what could not be run without one.

The design decision: a script runs the `sandrl` command as a user does, and verifies what the command has left in the
run directory. It asks nothing of the training process itself, so what it finds is what a user would find.
`docs/guides/gpu.md` lists the code paths and the script that covers each.
"""
