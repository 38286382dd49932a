#!/bin/sh
# Passes only every other time, whatever was done well.
reward=0
if [ "$(cat /app/answer.txt 2>/dev/null)" = "done" ] && [ $(($(head -c 1 /dev/urandom | od -A n -t u1) % 2)) = 0 ]; then
  reward=1
fi
echo "the coin says $reward"
echo "$reward" >/logs/verifier/reward.txt
