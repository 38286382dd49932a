#!/bin/sh
set -e
echo "about to compare with a file that nobody put here"
cmp /tests/expected.txt /app/answer.txt
echo 1 >/logs/verifier/reward.txt
