#!/bin/sh
# A skill without findings is none.
set -eu
request=$(cat)
case $request in
*"with 0 findings"*) echo "invalid: there is nothing in it" ;;
*"findings."*) echo "Valid. It is used when tests are written." ;;
*) echo "invalid: no skill was named" ;;
esac
