#!/bin/sh
set -e
cd /app
awk -F, 'NR > 1 { s += $2 } END { print s }' readings.csv >total.txt
awk -F, 'NR > 1 && $2 > m { m = $2 } END { print m }' readings.csv >longest.txt
awk -F, 'NR > 1 { print $1 }' readings.csv | sort -u | wc -l >lamps.txt
