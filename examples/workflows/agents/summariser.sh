#!/bin/sh
set -eu
total=$(sed -n 's/.* has \([0-9]*\) lines/\1/p' | awk '{ sum += $1 } END { print sum + 0 }')
echo "In all there are $total lines."
