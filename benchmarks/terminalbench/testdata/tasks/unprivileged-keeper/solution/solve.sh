#!/bin/sh
set -e
echo "$STAGE" >/home/agent/stage.txt
chmod 444 /home/agent/stage.txt
cat /app/ready.txt >/home/agent/ready.txt
