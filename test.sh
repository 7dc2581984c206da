#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: those of the release build, without the long ones.
#
#   ./test.sh --asan        the tests again, under the address and undefined-behaviour sanitizers
#   ./test.sh --long        the long tests alone (label `long`)
#   ./test.sh --synthesis   what the blocks take is what docs/rtl.md says (label `synthesis`): an hour or more
#   ./test.sh --lint        clang-format, clang-tidy, Verilator's lint
#   ./test.sh --all         everything
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

parts=()
for option; do
    case $option in
        --asan | --long | --synthesis | --lint) parts+=("${option#--}") ;;
        --all) parts+=(lint release asan long synthesis) ;;
        *)
            echo "test.sh: unknown option $option, expected --asan, --long, --synthesis, --lint or --all" >&2
            exit 2
            ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(release)

. .ci/setup.sh

# build_and_test PRESET CTEST-ARGUMENTS...
build_and_test() {
    local preset=$1
    shift
    cmake --preset "$preset" --log-level=WARNING
    build "$preset"
    ctest --preset "$preset" --parallel "$(nproc)" "$@"
}

for part in "${parts[@]}"; do
    echo "== $part"
    install_packages run test
    case $part in
        release) build_and_test release --no-tests=error --label-exclude '^(long|synthesis)$' ;;
        # Tests labelled `release` simulate more than the sanitizers' pace allows.
        asan) build_and_test asan --no-tests=error --label-exclude '^(long|release|synthesis)$' ;;
        long | synthesis) build_and_test release --no-tests=error --label-regex "^$part\$" ;;
        lint)
            install_packages lint
            cmake --preset release --log-level=WARNING
            python3 .ci/lint.py build/release
            ;;
    esac
done
