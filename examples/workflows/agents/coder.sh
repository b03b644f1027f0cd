#!/bin/sh
# Writes a change; the second one heeds what the reviewer said.
set -eu
request=$(cat)
case $request in
*"It is approved"*) echo "Merged." ;;
*rejected*) echo "fn login(name: &str) { /* checks its input, with a test */ }" ;;
*) echo "fn login(name: &str) {}" ;;
esac
