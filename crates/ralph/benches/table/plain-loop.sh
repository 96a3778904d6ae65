#!/usr/bin/env bash
# A loop as people write it, to stand beside `ralph build`: pick a task with jq, call the agent with
# a prompt, run the gate, mark the task done, commit. Nothing more: no limits, no journal, no way
# back, and whatever the agent says is believed.
# Usage: plain-loop.sh FILE ITERATIONS GATE AGENT [WORDS...]
set -euo pipefail
list=$1 iterations=$2 gate=$3
shift 3

for ((iteration = 1; iteration <= iterations; iteration++)); do
    id=$(jq -r '[.tasks[] | select(.status == "pending")][0].id // empty' "$list")
    if [ -z "$id" ]; then
        echo "all tasks are done"
        exit 0
    fi
    title=$(jq -r --arg id "$id" '.tasks[] | select(.id == $id).title' "$list")
    prompt=$(jq -r --arg id "$id" '.tasks[] | select(.id == $id)
        | "Do this task.\n\n# \(.title)\n\n\(.description)\n\n"
          + ([.acceptance_criteria[] | "- " + .] | join("\n"))' "$list")
    printf '%s\n' "$prompt" | "$@" >log/agent-"$iteration".txt 2>&1 || true
    if sh -c "$gate" >log/gate-"$iteration".txt 2>&1; then
        jq --arg id "$id" '(.tasks[] | select(.id == $id)).status = "done"' "$list" >"$list.new"
        mv "$list.new" "$list"
        git add -A
        git commit --quiet --message "$id: $title"
    fi
done
