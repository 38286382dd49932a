#!/bin/sh
# Asks the server that was left running; it is not started here.
failures=0
fetch() { timeout 5 wget -q -O - "http://127.0.0.1:8080/$1" 2>&1; }
if [ "$(fetch status.txt)" != "all lamps lit" ]; then
  echo "FAILED: status.txt was not served: $(fetch status.txt)"
  failures=$((failures + 1))
fi
token=$(head -c 12 /dev/urandom | md5sum | cut -c 1-16)
echo "$token" >/app/www/token.txt
if [ "$(fetch token.txt)" != "$token" ]; then
  echo "FAILED: a new file was not served"
  failures=$((failures + 1))
fi
if fetch missing.txt >/dev/null; then
  echo "FAILED: a missing file was answered"
  failures=$((failures + 1))
fi
if [ "$failures" = 0 ]; then
  echo "ok: the server answers"
  reward=1
else
  reward=0
fi
echo "$reward" >/logs/verifier/reward.txt
