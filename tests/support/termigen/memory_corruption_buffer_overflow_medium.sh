#!/bin/bash
cd /workspace
sed -i -e 's/^    strcpy(temp_buffer, line);/    snprintf(temp_buffer, sizeof temp_buffer, "%s", line);/' \
    -e 's/sprintf(pattern, "Found/snprintf(pattern, sizeof pattern, "Found/' \
    -e "s/while (ip_start\[i\] != ' '/while (i < (int)sizeof ip_buffer - 1 \&\& ip_start[i] != ' '/" \
    -e 's/fgets(line, 512, file)/fgets(line, sizeof line, file)/' \
    -e 's/^        strcat(all_lines, line);/        strncat(all_lines, line, sizeof all_lines - strlen(all_lines) - 1);/' logparser.c
make
crashes=0
for log in logs/*.log; do
    valgrind --quiet --error-exitcode=1 ./logparser "$log" > /dev/null || crashes=$((crashes + 1))
done
[ $crashes = 0 ] && fixed=yes || fixed=no
printf 'FIXED=%s\nCRASHES=%d\n' $fixed $crashes > fix_summary.txt
