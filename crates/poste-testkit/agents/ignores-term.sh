#!/bin/sh
# Will not be asked to end, nor will what it starts.
trap '' TERM INT HUP
echo "$$" >> "$AGENT_FOLDER/pids"
sh -c 'trap "" TERM INT HUP; echo $$ >> "$AGENT_FOLDER/pids"; while :; do sleep 1; done' &
while :; do sleep 1; done
