"""Trials: an agent and a verifier at work in the machine of a task."""
