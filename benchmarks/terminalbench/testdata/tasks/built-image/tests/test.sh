#!/bin/sh
# The directory and the variable are the image's, as they were for the agent.
failures=0
check() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: got '$2', want '$3'"
    failures=$((failures + 1))
  fi
}
check "working directory" "$(pwd)" /srv/watch
check "variable" "$COUNTS_FILE" /srv/watch/counts.txt
check "ignored file" "$(ls README.md 2>/dev/null)" ""
check "counts" "$(cat /srv/watch/counts.txt 2>/dev/null | tr '\n' '|')" "$(cat ./*.log | awk '{ n[$2]++ } END { for (l in n) print l, n[l] }' | sort | tr '\n' '|')"
if [ "$failures" = 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
