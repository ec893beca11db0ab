"""`sandrl doctor`: whether completions can be scored on this machine, and what else sandrl can use here.

Every line of the report is a check of one form. At most one failed check is *the* problem, the one that prevents
scoring, and it is reported with its next step; all other lines are information. The examination imports nothing heavy
into its own process, starts no daemon, calls a service only with `--online`, and leaves nothing behind.
"""

from sandrl.doctor.examination import examine
from sandrl.doctor.report import Check, Finding, Report, State

__all__ = ["Check", "Finding", "Report", "State", "examine"]
