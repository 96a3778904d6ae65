#!/bin/sh
# The gate: what is there must work.
failed=0
check() { # script, input, expected
    [ -f "$1" ] || return 0
    actual=$(printf '%s' "$2" | sh "$1" 2>&1)
    if [ "$actual" = "$3" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: wanted $3, got $actual"
        failed=1
    fi
}
check count.sh 'one two three' 3
check longest.sh 'a bbb cc' bbb
exit $failed
