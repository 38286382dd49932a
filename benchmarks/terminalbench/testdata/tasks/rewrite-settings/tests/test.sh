#!/bin/sh
# The file must be the expected one, byte for byte.
reward=0
if cmp /tests/expected.ini /app/service.ini; then
  echo "ok: service.ini is as expected"
  reward=1
else
  echo "FAILED: service.ini differs:"
  diff /tests/expected.ini /app/service.ini
fi
echo "$reward" >/logs/verifier/reward.txt
