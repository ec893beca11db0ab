"""Code that runs below the daemon: the fork server and, inside every sandbox, the agent.

It is imported by an interpreter started with `-I -S` and forked thousands of times, so it uses the standard
library only, imports as little of it as it can, and starts no thread.
"""
