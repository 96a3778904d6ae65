#!/bin/sh
# The gate: every script that is there must give the right answer.
failed=0
check() { # script, expected, arguments...
    script=$1 expected=$2
    shift 2
    [ -f "$script" ] || return 0
    actual=$(sh "$script" "$@" 2>&1)
    if [ "$actual" = "$expected" ]; then
        echo "ok    $script $*"
    else
        echo "FAIL  $script $*: wanted $expected, got $actual"
        failed=1
    fi
}
check lib/add.sh 6 1 2 3
check lib/add.sh 0
check lib/double.sh 8 4
exit $failed
