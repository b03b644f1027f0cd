#!/bin/sh
# Says a word, with a sign a terminal would obey, and then nothing until somebody lets it.
echo "$$" >> "$AGENT_FOLDER/pids"
printf 'thinking \033[31mhard\033[0m\n'
while [ ! -e "$AGENT_FOLDER/go" ]; do sleep 0.1; done
echo "the answer"
