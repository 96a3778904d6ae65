#!/bin/sh
# Runs every case: an argument, and what is printed for it; `!` stands for exit code 2.
failed=0
for file in cases/*.txt; do
    while read -r argument expected; do
        actual=$(sh roman.sh "$argument" 2>/dev/null)
        [ $? = 2 ] && actual='!'
        if [ "$actual" = "$expected" ]; then
            echo "ok    roman.sh $argument"
        else
            echo "FAIL  roman.sh $argument: wanted $expected, got $actual"
            failed=1
        fi
    done <"$file"
done
exit $failed
