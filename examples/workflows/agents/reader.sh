#!/bin/sh
# Counts the lines of the file it is asked to read.
set -eu
file=$(sed -n 's/^Read \([^ ]*\) (.*/\1/p' | head -n 1)
lines=$(wc -l < "$file")
echo "$file has $((lines)) lines"
