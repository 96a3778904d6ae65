#!/bin/sh
# Installs ralph: downloads the archive for this machine, checks it against the list of checksums,
# and puts the program into ~/.local/bin.
#
#   RALPH_BASE_URL     where the archives are (an https:// URL, or file:///some/directory)
#   RALPH_VERSION      which version
#   RALPH_INSTALL_DIR  where the program goes
#   RALPH_TARGET       another build than the one for this machine
#
# Everything is in functions, so that a script that was cut off on its way does nothing.
set -eu

BASE_URL=${RALPH_BASE_URL:-@BASE_URL@}
VERSION=${RALPH_VERSION:-@VERSION@}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "install: $*"
    exit 1
}

# Says which build this machine needs. Linux gets the static one, which runs everywhere.
target() {
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64 | Linux-amd64) echo x86_64-unknown-linux-musl ;;
        Linux-aarch64 | Linux-arm64) echo aarch64-unknown-linux-musl ;;
        Darwin-x86_64) echo x86_64-apple-darwin ;;
        Darwin-arm64) echo aarch64-apple-darwin ;;
        *) fail "there is no build for $(uname -s) on $(uname -m); \`cargo install\` makes one" ;;
    esac
}

# Downloads $1 to the file $2. A redirect to plain http is refused.
download() {
    case "$1" in
        file://*) cp "${1#file://}" "$2" || fail "cannot read $1" ;;
        https://* | http://127.0.0.1:* | http://localhost:*)
            if command -v curl >/dev/null; then
                proto='=https'
                case "$1" in http://*) proto='=http' ;; esac
                curl --proto "$proto" --fail --silent --show-error --location --retry 3 \
                    --output "$2" "$1" || fail "cannot download $1"
            elif command -v wget >/dev/null; then
                download_with_wget "$1" "$2"
            else
                fail "curl or wget is needed"
            fi
            ;;
        *) fail "the base URL must begin with https:// or file://; it is $1" ;;
    esac
}

# wget follows a redirect wherever it leads, so that each step is looked at before it is taken.
download_with_wget() {
    url=$1
    for _ in 1 2 3 4 5; do
        case "$1 $url" in
            "https://"*" https://"* | "http://"*" http://127.0.0.1:"* | "http://"*" http://localhost:"*) ;;
            *) fail "$1 leads to $url, which is not https" ;;
        esac
        if head=$(wget --tries=3 --max-redirect=0 --server-response --output-document="$2" "$url" 2>&1); then
            return
        fi
        url=$(printf '%s\n' "$head" | sed -n 's/^ *[Ll]ocation: *\([^[:space:]]*\).*/\1/p' | tail -n 1)
        [ -n "$url" ] || fail "cannot download $1: $(printf '%s\n' "$head" | tail -n 1)"
    done
    fail "cannot download $1: it leads on and on"
}

sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1" | cut -d' ' -f1
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 "$1" | sed 's/.* //'
    else
        fail "sha256sum, shasum or openssl is needed to check the download"
    fi
}

main() {
    case "$BASE_URL$VERSION" in *@*@*) fail "RALPH_BASE_URL and RALPH_VERSION must be set" ;; esac
    directory=${RALPH_INSTALL_DIR:-${HOME:?is not set}/.local/bin}
    build=${RALPH_TARGET:-$(target)}
    name=ralph-$VERSION-$build
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    say "Downloading $name"
    download "$BASE_URL/SHA256SUMS" "$work/SHA256SUMS"
    download "$BASE_URL/$name.tar.gz" "$work/$name.tar.gz"
    # The names in the list are fixed texts: no pattern, no other file with the same end.
    wanted=$(awk -v name="$name.tar.gz" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS does not name $name.tar.gz"
    found=$(sha256 "$work/$name.tar.gz")
    [ "$found" = "$wanted" ] || fail "the checksum of $name.tar.gz is $found and should be $wanted"
    tar -xzf "$work/$name.tar.gz" -C "$work" "$name/ralph" || fail "the archive has no $name/ralph"
    "$work/$name/ralph" --version >/dev/null || fail "the program does not run on this machine"
    mkdir -p "$directory"
    # Beside its place first, so that a running ralph is replaced and never overwritten.
    cp "$work/$name/ralph" "$directory/.ralph.$$"
    chmod 755 "$directory/.ralph.$$"
    mv -f "$directory/.ralph.$$" "$directory/ralph"
    say "Installed $("$directory/ralph" --version) to $directory/ralph"
    case ":$PATH:" in
        *":$directory:"*) ;;
        *) say "$directory is not on your PATH; add it, for example with: export PATH=\"$directory:\$PATH\"" ;;
    esac
}

main "$@"
