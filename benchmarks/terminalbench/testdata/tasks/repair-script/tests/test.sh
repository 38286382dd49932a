#!/bin/sh
# Runs the script on nights that are not in the instruction.
failures=0
check() {
  want=$1
  shift
  got=$(/app/watch-plan "$@" 2>/dev/null | tr '\n' '|')
  if [ "$got" = "$want" ]; then
    echo "ok: watch-plan $*"
  else
    echo "FAILED: watch-plan $*: got '$got', want '$want'"
    failures=$((failures + 1))
  fi
}
refuses() {
  got=$(/app/watch-plan "$@" 2>/dev/null)
  code=$?
  if [ "$code" = 2 ] && [ -z "$got" ]; then
    echo "ok: watch-plan $* is refused"
  else
    echo "FAILED: watch-plan $*: exit code $code, output '$got'"
    failures=$((failures + 1))
  fi
}
check "ada 0 4|bo 4 7|cy 7 10|" 10 ada bo cy
check "eve 0 8|" 8 eve
check "a 0 3|b 3 6|c 6 9|d 9 12|" 12 a b c d
check "a 0 2|b 2 4|c 4 5|d 5 6|" 6 a b c d
check "a 0 1|b 1 1|" 1 a b
check "the old man 0 6|his dog 6 11|" 11 "the old man" "his dog"
refuses 10
refuses
refuses zero ada
refuses 0 ada
refuses -4 ada
if [ "$failures" = 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
