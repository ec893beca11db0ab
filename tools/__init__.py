"""Programs for those who work on sandrl; nothing here is part of the package."""
