#!/bin/sh
# Hands its draft in as a file: it ends the message itself, so nothing is read from its stdout.
set -eu
subject=$(sed -n 's/.*draft about \(.*\) and hand.*/\1/p' | head -n 1)
mkdir -p drafts
if [ "$subject" = nothing ]; then
    : > drafts/post.md
    echo "x" > drafts/post.md
else
    printf '# %s\n\nEverything that is worth knowing about it, in two sentences. This is the second.\n' "$subject" \
        > drafts/post.md
fi
"${POSTE:-poste}" reply "$POSTE_MESSAGE" "A draft about $subject" --done --artifact drafts/post.md > /dev/null
