#!/bin/sh
set -e
httpd -p 8080 -h /app/www
