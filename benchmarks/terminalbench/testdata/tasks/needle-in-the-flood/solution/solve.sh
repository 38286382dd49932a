#!/bin/sh
# Prints everything on the way, as a careless agent would.
set -e
/app/flood | tee /tmp/flood.txt
sed -n 's/^needle: //p' /tmp/flood.txt >/app/needle.txt
rm /tmp/flood.txt
