#!/bin/bash
cd /workspace/profiling_data
average() { awk '/^Bandwidth: [0-9.]+ GB\/s/ { sum += $2; n++ } END { printf "%.2f", sum / n }' "$1"; }
pageable=$(average pageable_memory.log) pinned=$(average pinned_memory.log)
printf 'pageable_avg=%s\npinned_avg=%s\nimprovement_ratio=%s\n' "$pageable" "$pinned" \
    "$(awk "BEGIN { printf \"%.2f\", $pinned / $pageable }")" > /tmp/bandwidth_analysis.txt
