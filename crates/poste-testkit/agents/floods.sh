#!/bin/sh
# Prints far more than anybody reads, on both streams.
yes 'more and more and more and more and more and more' | head -c 60000000
yes 'and worse' | head -c 20000000 >&2
