"""`sandrl view`: all runs of this machine in a browser, live while they are written.

The design decision: a viewer only reads runs, and answers from an index of each (`sandrl.runs.columns`), never from the
whole of it. The page is the one of the static report (`sandrl.runs.report`), with the same documents behind addresses
instead of inside it; docs/guides/view.md lists them. An export is these documents once more, as files.
"""
