#!/usr/bin/env bash
# The steps of action.yml: judge, tell, keep, end. Each gets what it needs as variables.
set -euo pipefail

# The name of a job in files, comments and the status: its file without folder and ending.
name="$(basename "${JOB:-job}" .toml | tr -c 'A-Za-z0-9_.\n-' '-')"

# The line of a command's standard error that says why it failed, or its last line.
why() {
	{ grep -E '^(error:|FAILED )' "$1" || tail -n 1 "$1"; } | tail -n 1
}

did_not_run() {
	verdict=did_not_run
	said="$(why "$1")"
	{
		echo "## Keymark gate: did not run"
		echo
		echo "Nothing was compared, so this is no pass."
		echo
		echo "    ${said:-nothing was said}"
	} >"$OUT/gate.md"
}

# Run Keymark with its output in $OUT/gate.txt; its errors are shown, and kept in $OUT/gate.err.
keymark() {
	code=0
	{ "$KEYMARK" "$@" 2>&1 >&3 | tee "$OUT/gate.err" >&2; } 3>"$OUT/gate.txt" || code=$?
	cat "$OUT/gate.txt"
}

judge() {
	local code words=(run "$JOB" --out "$OUT/run")
	if [ -n "$BASE" ]; then words+=(--base "$BASE" --candidate "$CANDIDATE"); fi
	mkdir -p "$OUT"
	keymark "${words[@]}"
	verdict=measured said="measured"
	if [ "$code" -gt 1 ] || { [ "$code" -eq 1 ] && [ -z "$BASE" ]; }; then
		did_not_run "$OUT/gate.err"
	elif [ -n "$BASE" ]; then
		words=(gate "$OUT/run" --markdown "$OUT/gate.md" --junit "$OUT/gate.xml")
		if [ -n "${POLICY:-}" ]; then words+=(--policy "$POLICY"); fi
		keymark "${words[@]}"
		said="$(tail -n 1 "$OUT/gate.txt")"
		case "$code" in
		0) verdict=pass ;;
		1) verdict=regression ;;
		3) verdict=inconclusive ;;
		*) did_not_run "$OUT/gate.err" ;;
		esac
	fi
	printf '%s\n' "$said" >"$OUT/gate.said"
	printf 'verdict=%s\nname=%s\n' "$verdict" "$name" >>"$GITHUB_OUTPUT"
	if [ -f "$OUT/gate.md" ]; then cat "$OUT/gate.md" >>"$GITHUB_STEP_SUMMARY"; fi
}

tell() {
	local state said known marker="<!-- keymark action: $name -->"
	case "$VERDICT" in
	pass | measured | inconclusive) state=success ;;
	regression) state=failure ;;
	*) state=error ;;
	esac
	said="$(head -n 1 "$OUT/gate.said" 2>/dev/null || echo "did not run")"
	if [ "$state" = error ]; then said="did not run: ${said#error: }"; fi
	gh api --method POST "repos/$GITHUB_REPOSITORY/statuses/$COMMIT" -f state="$state" \
		-f context="keymark/$name" -f description="${said:0:139}" >/dev/null
	if [ "$COMMENT" != true ] || [ -z "$PULL_REQUEST" ] || [ ! -f "$OUT/gate.md" ]; then return; fi
	{ echo "$marker" && cat "$OUT/gate.md"; } >"$OUT/comment.md"
	known="$(MARKER="$marker" gh api "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" \
		--paginate --jq '.[] | select(.body | startswith(env.MARKER)) | .id' | head -n 1)"
	if [ -n "$known" ]; then
		gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" \
			-F body=@"$OUT/comment.md" >/dev/null
	else
		gh pr comment "$PULL_REQUEST" --body-file "$OUT/comment.md"
	fi
}

keep() {
	local folder
	folder="$(mktemp -d)/history"
	if git fetch --quiet --depth 1 origin "$BRANCH"; then
		git worktree add --quiet --detach "$folder" FETCH_HEAD
	else
		git worktree add --quiet --detach "$folder"
		git -C "$folder" checkout --quiet --orphan "$BRANCH"
		git -C "$folder" rm -r --quiet --force .
	fi
	mkdir -p "$folder/$name"
	cp "$OUT/run/summary.json" "$folder/$name/$(date -u +%Y%m%dT%H%M%S).json"
	git -C "$folder" add "$name"
	git -C "$folder" -c user.name=keymark -c user.email=keymark@localhost commit --quiet --message "A run of $name"
	git -C "$folder" push --quiet origin "HEAD:refs/heads/$BRANCH"
	git worktree remove --force "$folder"
}

end() {
	case "$VERDICT" in
	pass | measured) exit 0 ;;
	inconclusive) if [ "$UNDECIDED" = pass ]; then exit 0; else exit 3; fi ;;
	regression) exit 1 ;;
	*)
		echo "did not run: nothing was compared, so this is no pass" >&2
		exit 2
		;;
	esac
}

"$1"
