#!/bin/sh
set -e
cat >/app/watch-plan <<'END'
#!/bin/sh
# watch-plan HOURS KEEPER... divides a night among keepers.
case ${1:-} in
  '' | *[!0-9]*) echo "usage: watch-plan HOURS KEEPER..." >&2; exit 2 ;;
esac
if [ "$1" -lt 1 ] || [ $# -lt 2 ]; then
  echo "usage: watch-plan HOURS KEEPER..." >&2
  exit 2
fi
hours=$1
shift
share=$((hours / $#))
rest=$((hours % $#))
from=0
for keeper in "$@"; do
  to=$((from + share))
  if [ "$rest" -gt 0 ]; then
    to=$((to + 1))
    rest=$((rest - 1))
  fi
  echo "$keeper $from $to"
  from=$to
done
END
