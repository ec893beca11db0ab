"""Trials: an agent acts on the machine of a task, and its verifier decides the reward."""
