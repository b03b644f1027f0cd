#!/bin/sh
# Never reads what it is told.
exec < /dev/null
echo 'I did not listen'
