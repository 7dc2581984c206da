# Sourced by run.sh and test.sh, from the top of the tree.

# Python in build steps and tests leaves no __pycache__ among the sources.
export PYTHONDONTWRITEBYTECODE=1
# Clones at different places share what ccache holds.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# install_packages GROUP...: installs what is missing of these groups of .ci/packages.
install_packages() {
    local group packages missing run_as_root=()
    packages=$(for group; do sed -n "s/^$group  *//p" .ci/packages; done)
    if ! command -v dpkg-query > /dev/null; then
        echo "not a Debian system: going on with what is installed; needed are the like of" $packages >&2
        return
    fi
    # Unquoted: a list of words.
    missing=$(comm -23 <(printf '%s\n' $packages | sort -u) \
        <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2> /dev/null | sed -n 's/^installed //p' | sort -u))
    [ -n "$missing" ] || return 0
    echo "installing" $missing >&2
    [ "$(id -u)" = 0 ] || run_as_root=(sudo)
    "${run_as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
    "${run_as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        install -y --no-install-recommends $missing > /dev/null
}

# build PRESET [TARGET...]: all targets when none is named.
build() {
    local preset=$1
    shift
    cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}
