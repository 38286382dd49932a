#!/bin/sh
set -e
cat ./*.log | awk '{ n[$2]++ } END { for (l in n) print l, n[l] }' | sort >"$COUNTS_FILE"
