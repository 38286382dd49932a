#!/bin/sh
# The receipt belongs to a batch that ran for its full time.
reward=0
if ! read -r began ended </var/lib/batch/times; then
  echo "FAILED: the batch was not run to its end"
elif [ $((ended - began)) -lt $((BATCH_SECONDS - 1)) ]; then
  echo "FAILED: the batch took $((ended - began)) s"
elif [ "$(cat /app/receipt.txt 2>/dev/null)" != "receipt-$(md5sum </var/lib/batch/times | cut -c 1-12)" ]; then
  echo "FAILED: the receipt is not that of the batch"
else
  echo "ok: the receipt is right"
  reward=1
fi
echo "$reward" >/logs/verifier/reward.txt
