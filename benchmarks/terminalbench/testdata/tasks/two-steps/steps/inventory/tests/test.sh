#!/bin/sh
sh /tests/compare /app/inventory.txt "glass 7" "oil 3" "rope 0" "wick 17" >/logs/verifier/reward.txt
