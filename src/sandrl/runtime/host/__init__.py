"""The daemon's work on the host: finds interpreters, launches sandboxes, talks to their agents."""
