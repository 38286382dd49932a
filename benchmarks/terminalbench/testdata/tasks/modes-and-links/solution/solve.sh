#!/bin/sh
set -e
umask 022
mkdir -p /app/site/releases/1 /app/site/releases/2 /app/site/inbox
chmod 755 /app/site/releases/1 /app/site/releases/2
echo started >/app/site/releases/2/start
chmod 755 /app/site/releases/2/start
: >/app/site/secret.key
chmod 600 /app/site/secret.key
chmod 1777 /app/site/inbox
ln -s releases/2 /app/site/current
ln /app/site/releases/2/start /app/site/start
chmod 750 /app/site
