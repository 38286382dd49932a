#!/bin/sh
inventory=$(sh /tests/compare /app/inventory.txt "glass 7" "oil 3" "rope 0" "wick 17")
order=$(sh /tests/compare /app/order.txt "glass 3" "oil 7" "rope 10")
echo $((inventory * order)) >/logs/verifier/reward.txt
