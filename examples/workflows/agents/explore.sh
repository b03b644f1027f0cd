#!/bin/sh
# Reads what it is asked on stdin, and answers on stdout. A real one is a model with tools.
set -eu
topic=$(sed -n 's/.*Research \([^:]*\):.*/\1/p' | head -n 1)
echo "Findings about ${topic:-nothing}:"
echo "- small tests run first"
echo "- fixtures are shared by name"
