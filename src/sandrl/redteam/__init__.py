"""Attacks on the judge: a corpus of exploits, and campaigns that try it on a user's problems."""

from sandrl.redteam.campaign import ExploitAttempt, ExploitTally, RedteamReport, attack
from sandrl.redteam.corpus import EXPLOITS, EXPLOITS_IN_CPP
from sandrl.redteam.exploit import Exploit, ExploitKind, Target, aim_at, arm
from sandrl.redteam.run import RedteamRun, run_redteam

__all__ = [
    "EXPLOITS",
    "EXPLOITS_IN_CPP",
    "Exploit",
    "ExploitAttempt",
    "ExploitKind",
    "ExploitTally",
    "RedteamReport",
    "RedteamRun",
    "Target",
    "aim_at",
    "arm",
    "attack",
    "run_redteam",
]
