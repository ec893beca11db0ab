#!/bin/bash
cat > /tmp/ring.py <<'END'
import bisect
import hashlib
import json
from pathlib import Path


def place(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


servers = json.loads(Path("/tmp/servers.json").read_text())
ring = sorted((place(f"{server['id']}#{i}"), server["id"]) for server in servers for i in range(3000 * server["weight"]))
places = [each for each, _ in ring]
distribution = {server["id"]: [] for server in servers}
for key in filter(None, map(str.strip, Path("/tmp/cache_keys.txt").read_text().splitlines())):
    distribution[ring[bisect.bisect(places, place(key)) % len(ring)][1]].append(key)
Path("/tmp/key_distribution.json").write_text(json.dumps(distribution))
END
python3 /tmp/ring.py
