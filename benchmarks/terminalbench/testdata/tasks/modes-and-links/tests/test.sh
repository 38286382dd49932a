#!/bin/sh
# Compares kinds, modes and links.
failures=0
check() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: got '$2', want '$3'"
    failures=$((failures + 1))
  fi
}
describe() { stat -c '%F %a' "$1" 2>&1; }
check "site" "$(describe /app/site)" "directory 750"
check "releases/1" "$(describe /app/site/releases/1)" "directory 755"
check "releases/2" "$(describe /app/site/releases/2)" "directory 755"
check "start's mode" "$(describe /app/site/releases/2/start)" "regular file 755"
check "start's content" "$(cat /app/site/releases/2/start 2>&1)" started
check "secret.key" "$(describe /app/site/secret.key)" "regular empty file 600"
check "inbox" "$(describe /app/site/inbox)" "directory 1777"
check "current" "$(readlink /app/site/current)" releases/2
check "hard link" "$(stat -c %i /app/site/start 2>&1)" "$(stat -c %i /app/site/releases/2/start 2>/dev/null)"
if [ "$failures" = 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
