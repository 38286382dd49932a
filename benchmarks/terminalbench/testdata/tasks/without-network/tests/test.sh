#!/bin/sh
# Besides the document, checks that there really was no network.
failures=0
routes=$(sed 1d /proc/net/route | cut -f 1 | sort -u | tr '\n' ' ')
if [ -n "$routes" ]; then
  echo "FAILED: there are routes to other machines, over $routes"
  failures=$((failures + 1))
fi
for n in $(seq 12); do cat "/app/parts/part-$n"; done >/tmp/expected.txt
if ! cmp /tmp/expected.txt /app/document.txt; then
  echo "FAILED: the document is not right"
  failures=$((failures + 1))
fi
if [ "$(tr -d ' \n' </app/document.md5 2>/dev/null)" != "$(md5sum </tmp/expected.txt | cut -c 1-32)" ]; then
  echo "FAILED: the sum is not right"
  failures=$((failures + 1))
fi
if [ "$failures" = 0 ]; then
  echo "ok: document and sum are right"
  reward=1
else
  reward=0
fi
echo "$reward" >/logs/verifier/reward.txt
