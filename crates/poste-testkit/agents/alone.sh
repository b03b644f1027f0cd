#!/bin/sh
# Must be alone with its message: whoever finds another one at it says so. What it starts keeps its place.
exec 9> "$AGENT_FOLDER/at-$POSTE_MESSAGE"
flock -n 9 || echo "two at $POSTE_MESSAGE" >> "$AGENT_FOLDER/violations"
echo "$POSTE_MESSAGE" >> "$AGENT_FOLDER/begun"
( setsid sleep 600 > /dev/null 2>&1 & )
sleep "$AGENT_PAUSE"
echo "$POSTE_MESSAGE" >> "$AGENT_FOLDER/finished"
echo "the answer to $POSTE_MESSAGE"
