#!/bin/sh
reward=0
if [ "$(cat /app/answer.txt 2>/dev/null)" = "done" ]; then
  reward=1
else
  echo "FAILED: answer.txt says '$(cat /app/answer.txt 2>&1)', want 'done'"
fi
echo "$reward" >/logs/verifier/reward.txt
