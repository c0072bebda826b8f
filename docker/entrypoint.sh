#!/bin/sh
# Runs `aop` on the mounted repository, as whoever owns it.
set -eu
repo="${AOP_REPO:-/repo}"

if [ ! -e "$repo/.git" ]; then
    echo "aop: there is no git repository at $repo. Mount one: docker run -v \"\$PWD:/repo\" ..." >&2
    exit 2
fi
cd "$repo"
exec aop "$@"
