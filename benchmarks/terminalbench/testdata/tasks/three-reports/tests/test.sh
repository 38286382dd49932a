#!/bin/sh
# Gives partial credit through reward.json.
part() {
  if [ "$(tr -d '[:space:]' <"/app/$1.txt" 2>/dev/null)" = "$2" ]; then
    echo "ok: $1" >&2
    echo 1
  else
    echo "FAILED: $1 is not $2" >&2
    echo 0
  fi
}
total=$(part total "$(awk -F, 'NR > 1 { s += $2 } END { print s }' /app/readings.csv)")
longest=$(part longest "$(awk -F, 'NR > 1 && $2 > m { m = $2 } END { print m }' /app/readings.csv)")
lamps=$(part lamps "$(awk -F, 'NR > 1 { print $1 }' /app/readings.csv | sort -u | wc -l | tr -d ' ')")
reward=$(awk -v n=$((total + longest + lamps)) 'BEGIN { printf "%.4g", n / 3 }')
printf '{"reward": %s, "total": %s, "longest": %s, "lamps": %s}\n' "$reward" "$total" "$longest" "$lamps" >/logs/verifier/reward.json
