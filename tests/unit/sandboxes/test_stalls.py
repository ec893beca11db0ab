"""Stalls are pauses between signs of life."""

from __future__ import annotations

from sandrl.sandboxes.session import STALL_SECONDS, Heartbeats


def test_a_long_pause_between_two_signs_is_remembered() -> None:
    signs = Heartbeats()
    for now in (0.0, 1.0, 21.0, 22.0):
        signs.note(now)
    assert signs.longest_pause(0.5, 22.0) == 20.0
    assert signs.longest_pause(11.0, 22.0) == 10.0
    assert signs.longest_pause(21.5, 22.0) < STALL_SECONDS


def test_a_pause_that_still_lasts_counts() -> None:
    signs = Heartbeats()
    signs.note(5.0)
    assert signs.longest_pause(0.0, 30.0) == 25.0


def test_where_no_sign_is_expected_there_is_no_pause() -> None:
    signs = Heartbeats()
    assert signs.longest_pause(0.0, 100.0) == 0.0
    signs.note(1.0)
    signs.forget()
    signs.note(100.0)
    assert signs.longest_pause(0.0, 100.0) == 0.0
