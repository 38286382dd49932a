#!/bin/sh
set -e
/app/batch | tail -n 1 >/app/receipt.txt
