#!/bin/sh
# Takes work and never lets go of it, whoever asks.
trap '' TERM INT HUP
echo "$$" >> "$AGENT_FOLDER/pids"
poste claim --wait --type directive
touch "$AGENT_FOLDER/holds"
while :; do sleep 1; done
