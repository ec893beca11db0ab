"""The report of a run: one HTML file that needs no network, no server and no other file.

Text from a model never becomes markup. All data is in the page compressed and base64-encoded, so that no text can end
the element that contains it, and the page's own code displays it as text only. A content policy with the hashes of that
code forbids every other script and every connection.
"""

from sandrl.runs.report.document import report_document, report_problems, report_trajectories
from sandrl.runs.report.page import report_page, write_report

__all__ = ["report_document", "report_page", "report_problems", "report_trajectories", "write_report"]
