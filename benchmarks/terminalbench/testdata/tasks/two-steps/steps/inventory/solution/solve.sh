#!/bin/sh
set -e
cat /app/shelves/* | awk '{ n[$1] += $2 } END { for (a in n) print a, n[a] }' | sort >/app/inventory.txt
