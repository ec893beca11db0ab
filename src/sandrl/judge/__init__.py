"""Prepares how a completion is executed and interprets what the guest reports; `sandrl.scoring` executes it."""
