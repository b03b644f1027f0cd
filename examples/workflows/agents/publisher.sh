#!/bin/sh
set -eu
cat > /dev/null
mkdir -p public
cp drafts/post.md public/post.md
echo "Published public/post.md."
