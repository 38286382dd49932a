#!/bin/sh
set -e
awk '
  /^\[/ { section = $0 }
  section == "[legacy]" { next }
  section == "[store]" && /^port/ { print "port = 6543"; print "timeout = 30"; next }
  { print }
' /app/service.ini >/tmp/service.ini
cat /tmp/service.ini >/app/service.ini
