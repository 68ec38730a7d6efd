#!/usr/bin/env bash
# Runs dsh as the inputs in INPUT_* say, and hands on its answer and its exit code.
set -uo pipefail

read -ra dsh <<<"${DSH:-dsh}"
args=(run --no-ask --permission-mode "${INPUT_PERMISSION_MODE:-workspace-write}" --max-steps "${INPUT_MAX_STEPS:-50}" --timeout "${INPUT_TIMEOUT:-20m}")
[ -n "${INPUT_MODEL:-}" ] && args+=(--model "$INPUT_MODEL")
[ -n "${INPUT_PATCH:-}" ] && args+=(--patch "$INPUT_PATCH")
while IFS= read -r rule; do [ -n "$rule" ] && args+=(--allow "$rule"); done <<<"${INPUT_ALLOW:-}"
while IFS= read -r rule; do [ -n "$rule" ] && args+=(--deny "$rule"); done <<<"${INPUT_DENY:-}"

# The prompt goes in by a pipe: it may be long, and may begin with a dash.
result=$(printf '%s' "$INPUT_PROMPT" | "${dsh[@]}" "${args[@]}")
code=$?
printf '%s\n' "$result"

end=dsh-$RANDOM$RANDOM$RANDOM # no answer can end the value before its end
{
	echo "exit-code=$code"
	echo "result<<$end"
	printf '%s\n' "$result"
	echo "$end"
} >>"${GITHUB_OUTPUT:-/dev/null}"
{
	echo "## dsh"
	echo
	printf '%s\n' "$result"
	[ $code -eq 3 ] && printf '\nSomething would have needed an approval, and nobody was there: see the rules of the step.\n'
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
exit $code
