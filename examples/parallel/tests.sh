# Tests what is there; a program that is not written yet is no failure.
failed=0
check() {
    [ -e "$1" ] || return 0
    if [ "$2" = "$3" ]; then echo "ok $1"; else echo "FAIL $1: wanted $3, got $2"; failed=1; fi
}
check count.sh "$(echo one two three | sh count.sh 2>&1)" 3
check longest.sh "$(echo one three two | sh longest.sh 2>&1)" three
check upper.sh "$(echo abc | sh upper.sh 2>&1)" ABC
check words.sh "$(echo a bcd > words.tmp; sh words.sh words.tmp 2>&1; rm words.tmp)" "2
bcd
A BCD"
! grep -q '<<<<<<<' README.txt || { echo "FAIL README.txt has conflict markers"; failed=1; }
exit $failed
