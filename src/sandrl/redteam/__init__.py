"""Attacks on problems: exploits of code, cheats of tasks, and campaigns that try them on a user's problems."""

from sandrl.redteam.campaign import ExploitAttempt, ExploitTally, RedteamReport, attack
from sandrl.redteam.cheat import Cheat
from sandrl.redteam.cheats import CHEATS
from sandrl.redteam.corpus import EXPLOITS, EXPLOITS_IN_CPP
from sandrl.redteam.exploit import Exploit, ExploitKind, Target, aim_at, arm
from sandrl.redteam.run import RedteamRun, run_redteam
from sandrl.redteam.tasks import CheatAttempt, TaskAttack, attack_tasks

__all__ = [
    "CHEATS",
    "EXPLOITS",
    "EXPLOITS_IN_CPP",
    "Cheat",
    "CheatAttempt",
    "Exploit",
    "ExploitAttempt",
    "ExploitKind",
    "ExploitTally",
    "RedteamReport",
    "RedteamRun",
    "Target",
    "TaskAttack",
    "aim_at",
    "arm",
    "attack",
    "attack_tasks",
    "run_redteam",
]
