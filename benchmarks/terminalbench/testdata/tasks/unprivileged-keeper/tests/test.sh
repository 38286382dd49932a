#!/bin/sh
# Runs as root and looks at what the user left.
failures=0
check() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: got '$2', want '$3'"
    failures=$((failures + 1))
  fi
}
check "the verifier is root" "$(id -u)" 0
check "stage" "$(cat /home/agent/stage.txt 2>&1)" "$EXPECTED_STAGE"
check "owner and mode" "$(stat -c '%U %a' /home/agent/stage.txt 2>&1)" "agent 444"
tries=$(wc -l </home/agent/ready.txt 2>/dev/null | tr -d ' ')
if [ "${tries:-0}" -lt 3 ]; then
  echo "FAILED: the agent began after ${tries:-0} checks of the machine's health, the third was the first to succeed"
  failures=$((failures + 1))
fi
if [ "$failures" = 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
