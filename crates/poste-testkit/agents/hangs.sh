#!/bin/sh
# Does nothing, for ever.
echo "$$" >> "$AGENT_FOLDER/pids"
exec sleep 3600
