#!/bin/sh
# Dies each time.
echo "about to fall" >&2
kill -SEGV $$
sleep 60
