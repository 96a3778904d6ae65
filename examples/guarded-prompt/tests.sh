#!/bin/sh
# The guardrail: degrees in both directions, and what is no temperature.
failed=0
check() { # argument, expected output, expected exit code
    actual=$(sh convert.sh "$1" 2>/dev/null)
    code=$?
    if [ "$actual" = "$2" ] && [ $code = "${3:-0}" ]; then
        echo "ok    convert.sh '$1'"
    else
        echo "FAIL  convert.sh '$1': wanted '$2' (${3:-0}), got '$actual' ($code)"
        failed=1
    fi
}
check 100C 212F
check 0C 32F
check -40C -40F
check 212F 100C
check 32F 0C
check -40F -40C
check 20 '' 2
check warm '' 2
check '' '' 2
exit $failed
