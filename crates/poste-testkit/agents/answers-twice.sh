#!/bin/sh
# Answers by itself, again, and once more by what it prints.
poste reply "$POSTE_MESSAGE" 'the first answer' --done
poste reply "$POSTE_MESSAGE" 'the second answer' --done
poste done "$POSTE_MESSAGE" --summary 'and done' 2>&1
echo 'the third answer'
