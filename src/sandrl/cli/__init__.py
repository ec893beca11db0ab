"""The command line: one file per command, which parses, calls the library and renders."""
