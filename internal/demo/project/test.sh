#!/bin/sh
# Runs roman.sh on numbers whose Roman form is known.

failed=0

expect() {
	got=$(sh ./roman.sh "$1")
	if [ "$got" = "$2" ]; then
		echo "ok      $1 is $2"
	else
		echo "FAILED  $1 is $2, but roman.sh says $got"
		failed=$((failed + 1))
	fi
}

expect 1 I
expect 9 IX
expect 58 LVIII
expect 4 IV
expect 1990 MCMXC
expect 444 CDXLIV

if [ "$failed" -gt 0 ]; then
	echo "$failed failed"
	exit 1
fi
echo "all passed"
