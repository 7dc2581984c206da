#!/usr/bin/env bash
# The main job, from a fresh Debian 12 machine on: installs what is missing, builds the program, runs a scenario.
#
#   ./run.sh                        ep64: 64 GPUs, dispatch and combine with recorded routing
#   ./run.sh ep8 --json out.json    arguments go to `plait run`
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1-} in
    '' | -*) set -- ep64 "$@" ;;
esac

prepare() {
    cd "$top"
    . .ci/setup.sh
    install_packages run
    # A tree that test.sh has configured stays as it is.
    [ -f build/release/build.ninja ] || cmake --preset release --log-level=WARNING -DBUILD_TESTING=OFF
    build release plait
}
# In a subshell, so that file names in the arguments are the caller's; standard output is the report's alone.
(prepare >&2)
exec "$top/build/release/bin/plait" run "$@"
