"""The client of a service that scores elsewhere, and the batch of a command that uses it."""
