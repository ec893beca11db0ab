"""What the daemon does on the host: find interpreters, launch sandboxes, talk to their agents."""
