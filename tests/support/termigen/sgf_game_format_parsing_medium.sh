#!/bin/bash
python3 - <<'END'
import json
import re
from pathlib import Path

text = Path("/home/challenge/game.sgf").read_text()
moves, parent, branches = [], 0, []
for token, player, position in re.findall(r"([()])|(?<![A-Z])([BW])\[([a-z]{2})\]", text):
    if token == "(":
        branches.append(parent)
    elif token == ")":
        parent = branches.pop() if branches else 0  # the record closes one branch too many
    else:
        moves.append({"id": len(moves) + 1, "player": player, "position": position, "parent_id": parent})
        parent = len(moves)
Path("/home/challenge/solution.json").write_text(json.dumps({"moves": moves}))
END
