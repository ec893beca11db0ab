"""The documentation does what it says: every command of every page is run, or parsed where it cannot run."""
