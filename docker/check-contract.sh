#!/bin/sh
# Asks the server in an image for its tools, and compares them with the committed contract: docker/check-contract.sh IMAGE
set -eu
image="$1"
here="$(cd "$(dirname "$0")/.." && pwd)"
repo="$(mktemp -d)"
trap 'rm -rf "$repo"' EXIT

git -C "$repo" init -q -b main
git -C "$repo" -c user.name=ci -c user.email=ci@example.org commit -q --allow-empty -m "Begin"
in_image="docker run --rm -i --user $(id -u):$(id -g) -v $repo:/repo -e AOP_TOKEN $image"
AOP_TOKEN="$($in_image token orchestrator)"
export AOP_TOKEN
# shellcheck disable=SC2086 # the words of the command are words
exec "$here/.venv/bin/python" "$here/tests/mcpserver/contract_check.py" orchestrator $in_image mcp
