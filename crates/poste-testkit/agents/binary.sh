#!/bin/sh
# Prints bytes that are no text.
printf 'before \377\376\000\033[31m after'
