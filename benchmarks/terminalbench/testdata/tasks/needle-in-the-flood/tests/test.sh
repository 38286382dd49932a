#!/bin/sh
# Prints a flood of its own, which must not keep the reward from being read.
yes "a verifier may be talkative too" | head -c 5000000
reward=0
if [ "$(tr -d '[:space:]' </app/needle.txt)" = "4711-brass-lamp" ]; then
  echo "ok: the needle was found"
  reward=1
else
  echo "FAILED: needle.txt is not right"
fi
echo "$reward" >/logs/verifier/reward.txt
