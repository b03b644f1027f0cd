#!/bin/sh
# Leaves processes behind that left its group, its session, its parents and its environment, then answers.
for way in 'env -i' 'env -i AGENT_FOLDER=x' 'env'; do
    ( $way PATH="$PATH" setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$AGENT_FOLDER/pids" > /dev/null 2>&1 & )
done
( setsid sh -c '( setsid sh -c "echo \$\$ >> \"\$0\"; exec sleep 600" "$0" & )' "$AGENT_FOLDER/pids" > /dev/null 2>&1 & )
while [ "$(wc -l < "$AGENT_FOLDER/pids" 2> /dev/null || echo 0)" -lt 4 ]; do sleep 0.01; done
echo "the answer to $POSTE_MESSAGE"
