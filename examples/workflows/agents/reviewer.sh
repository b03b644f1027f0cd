#!/bin/sh
# Approves what has a test.
set -eu
if grep -q "with a test"; then
    echo "Approved. Thank you."
else
    echo "rejected: there is no test"
fi
