#!/bin/sh
# Checks what is there; a script that is not written yet is no failure.
[ -f slug.sh ] || exit 0
failed=0
check() {
    got=$(sh slug.sh "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    slug.sh $1"
    else
        echo "FAIL  slug.sh $1: wanted $2, got $got"
        failed=1
    fi
}
check "Hello World" hello-world
check "Ralph  in the Morning" ralph-in-the-morning
exit $failed
