#!/bin/sh
# Makes a file of the findings it is given, and says where it is.
set -eu
findings=$(grep '^- ' || true)
mkdir -p skills/testing
{
    echo "# A skill"
    echo
    echo "$findings"
} > skills/testing/SKILL.md
echo "Created skills/testing/SKILL.md with $(printf '%s\n' "$findings" | grep -c '^- ' || true) findings."
