"""`sandrl view`: all runs of this machine in a browser, live while they are written.

A viewer only reads runs, and answers from an index of each (`sandrl.runs.columns`), never from the whole run. Its page
is the page of the static report (`sandrl.runs.report`), with the same documents at addresses instead of inside it;
docs/guides/view.md lists them. An export consists of the same documents, as files.
"""
