#!/bin/bash
python3 - <<'END'
import json
from pathlib import Path

fixes = []
for entry in json.loads(Path("/opt/myapp/manifest.json").read_text()):
    paths = ["$ORIGIN/../lib" if entry["type"] == "executable" else "$ORIGIN"] if entry["needed_libs"] else []
    fixes.append({"path": entry["path"], "new_rpath": paths})
Path("/tmp/rpath_fixes.json").write_text(json.dumps(fixes))
END
