#!/bin/bash
python3 - <<'END'
import json
import re
from pathlib import Path

found = []
for name, value in re.findall(r"^#define (\w+) (\S+)$", Path("/workspace/shaders/compute.metal").read_text(), re.M):
    kind = "bool" if value in ("true", "false") else "float" if "." in value else "int"
    found.append({"variable_name": name, "current_value": value, "data_type": kind})
Path("/workspace/optimization_report.json").write_text(json.dumps(found))
END
