#!/bin/sh
set -e
awk '$2 < 10 { print $1, 10 - $2 }' /app/inventory.txt >/app/order.txt
