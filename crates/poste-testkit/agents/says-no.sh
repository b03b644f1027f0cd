#!/bin/sh
# Kept running: says why it does not stop.
echo "$$" >> "$AGENT_FOLDER/pids"
while :; do
    work=$(poste claim --wait --type shutdown_request --json) || continue
    number=$(printf '%s' "$work" | grep -o '"number":[0-9]*' | head -n 1 | cut -d : -f 2)
    poste fail "$number" --reason 'The release is half done'
done
