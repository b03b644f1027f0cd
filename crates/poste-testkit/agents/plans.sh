#!/bin/sh
# Asks for its plan to be approved before it does anything.
echo "$$" >> "$AGENT_FOLDER/pids"
decision=$(poste ask lead 'Split the parser first?' --plan --wait) || { poste fail "$POSTE_MESSAGE" --reason "the plan was denied: $decision"; exit 0; }
echo "went on after: $decision"
