#!/bin/sh
# Reads its mail and answers.
cat > /dev/null
echo "the answer to $POSTE_MESSAGE"
