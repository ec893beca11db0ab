"""Words that options of several commands share."""

from __future__ import annotations

PROBLEMS_HELP = (
    "`bundled`, `toy`, `tiny[:SPLIT]`, `mbpp[:SPLIT]`, `humaneval`, a dataset of the hub (owner/name[:SPLIT]), or a"
    " file."
)
