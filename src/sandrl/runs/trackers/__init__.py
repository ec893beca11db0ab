"""Trackers: W&B, TensorBoard, MLflow and Trackio get copies of the metrics of a run, and tables of its completions.

The run directory is the primary record, and a tracker is a copy of it that can be made again: `Tracker.begin` makes the
tracker's history that of the run so far, `add` appends a step. So a run that is resumed, one that worked offline and
`sandrl runs sync` take the same way, and each step is in a tracker once.
"""

from sandrl.runs.trackers.reporting import Reporting, SyncedTracker, reporting, sync_run, trackers_of
from sandrl.runs.trackers.tracker import TrackedStep, Tracker

__all__ = ["Reporting", "SyncedTracker", "TrackedStep", "Tracker", "reporting", "sync_run", "trackers_of"]
