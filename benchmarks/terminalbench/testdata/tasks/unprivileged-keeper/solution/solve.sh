#!/bin/sh
set -e
umask 077
echo "$STAGE" >/home/agent/stage.txt
cat /app/ready.txt >/home/agent/ready.txt
