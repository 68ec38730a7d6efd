#!/bin/sh
# Usage: sh roman.sh NUMBER
# Writes NUMBER, from 1 to 3999, in Roman numerals.

number=$1
case $number in
'' | *[!0-9]* | 0*)
	echo "roman.sh: '$number' is not a number from 1 to 3999" >&2
	exit 2
	;;
esac
if [ "$number" -gt 3999 ]; then
	echo "roman.sh: $number is above 3999" >&2
	exit 2
fi

# Values and their letters, largest first.
table='1000=M 900=CM 500=D 100=C 90=XC 50=L 10=X 9=IX 5=V 1=I'

roman=
for entry in $table; do
	value=${entry%=*}
	letters=${entry#*=}
	while [ "$number" -ge "$value" ]; do
		roman=$roman$letters
		number=$((number - value))
	done
done
echo "$roman"
