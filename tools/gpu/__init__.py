"""Scripts that verify, on a machine with a GPU, the code paths that need one.

A script runs the `sandrl` command as a user does, and verifies the files in the run directory. It communicates with no
training process, so its results are those of a user.
`docs/guides/gpu.md` lists the code paths and the script that covers each.
"""
