#!/bin/sh
set -e
cd /app/parts
ls | sort -t - -k 2 -n | xargs cat >/app/document.txt
md5sum /app/document.txt | cut -c 1-32 >/app/document.md5
