"""`sandrl doctor`: whether completions can be scored on this machine, and what else there is.

The design decision: every line of the report is a check of one form, and at most one of the failed ones is *the*
problem: what keeps completions from being scored, with the one thing to do about it. All the rest is information.
Nothing heavy is imported to look at it, no daemon is started, no service asked unless that is wished, and nothing is
left behind.
"""

from sandrl.doctor.examination import examine
from sandrl.doctor.report import Check, Finding, Report, State

__all__ = ["Check", "Finding", "Report", "State", "examine"]
