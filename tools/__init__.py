"""Programs for the development of sandrl; nothing here is part of the package."""
