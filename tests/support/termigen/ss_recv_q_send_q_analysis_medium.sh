#!/bin/bash
cd /home/agent
awk 'NR > 1 && $2 + $3 > 0 { n++; sum += $2 + $3 }
    END { printf "{\"affected_connections\": %d, \"total_buffered_bytes\": %d}\n", n, sum }' \
    socket_snapshot.txt > analysis_result.json
