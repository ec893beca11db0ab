"""Attacks on the judge: a corpus of exploits, and campaigns that try it on a user's problems."""

from sandrl.rewards.redteam.campaign import Attempt, RedteamReport, Tally, attack
from sandrl.rewards.redteam.corpus import EXPLOITS
from sandrl.rewards.redteam.exploit import Exploit, Kind, Target, aim_at, arm
from sandrl.rewards.redteam.run import RedteamRun, run_redteam

__all__ = [
    "EXPLOITS",
    "Attempt",
    "Exploit",
    "Kind",
    "RedteamReport",
    "RedteamRun",
    "Tally",
    "Target",
    "aim_at",
    "arm",
    "attack",
    "run_redteam",
]
