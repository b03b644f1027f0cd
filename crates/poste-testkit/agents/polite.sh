#!/bin/sh
# Kept running: does its work, and stops when it is asked to.
echo "$$" >> "$AGENT_FOLDER/pids"
echo "ready"
while :; do
    work=$(poste claim --wait --json) || continue
    number=$(printf '%s' "$work" | grep -o '"number":[0-9]*' | head -n 1 | cut -d : -f 2)
    case $work in
        *'"type":"shutdown_request"'*)
            poste reply "$number" 'Bye' --type shutdown_response --done
            exit 0
            ;;
    esac
    echo "working on $number"
    poste reply "$number" "did $number" --done
done
