#!/bin/sh
# Looks at the history and the content, not at how they came about.
cd /app/novel || { echo 0 >/logs/verifier/reward.txt; exit 0; }
failures=0
check() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: got '$2', want '$3'"
    failures=$((failures + 1))
  fi
}
check "main is checked out" "$(git symbolic-ref --short HEAD 2>&1)" main
check "the working tree is clean" "$(git status --porcelain 2>&1)" ""
check "subjects" "$(git log --format=%s main 2>&1 | tr '\n' '|')" \
  "Add the harbour chapter|Reserve a place for the end|Add the lamp chapter|Begin with the tide|"
check "no merge" "$(git log --merges --oneline main | wc -l | tr -d ' ')" 0
check "the old commits are the same" "$(git rev-parse main~1 2>&1)" "$(cat /tests/last-commit)"
check "the chapter" "$(cat 03-harbour.txt 2>&1)" "Seven boats lay in the harbour, and one of them was hers."
check "the changed line" "$(cat 01-tide.txt 2>&1)" "The tide was out when Marta came home, and the harbour smelled of tar."
check "the end" "$(cat 99-end.txt 2>&1)" "The end is not written yet."
if [ "$failures" = 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
