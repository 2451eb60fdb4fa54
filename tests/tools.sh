#!/usr/bin/env bash
# What the tests need beside Python packages: a browser for the console, Node.js for the JavaScript client, React for the React client.
# Takes what is there; otherwise Debian's packages (as root, or with sudo that asks nothing), otherwise Playwright's own browser.
set -eu
python=${1:?usage: tests/tools.sh PYTHON}

has() { for name in "$@"; do command -v "$name" >/dev/null && return 0; done; return 1; }

install() {
    has apt-get || return 1
    local as=()
    if [ "$(id -u)" != 0 ]; then
        has sudo && sudo -n true 2>/dev/null || return 1
        as=(sudo -n)
    fi
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    "${as[@]}" apt-get update -qq >/dev/null 2>&1
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

if ! has chromium chromium-browser google-chrome; then
    echo "installing Chromium for the tests of the console"
    install chromium || "$python" -m playwright install chromium ||
        { echo "no browser: install Chromium, then run this again" >&2; exit 1; }
fi
if ! has node; then
    echo "installing Node.js for the tests of the JavaScript client"
    install nodejs || { echo "no Node.js: install version 20 or newer, then run this again" >&2; exit 1; }
fi
react=$(dirname "$0")/../clients/react
if ! [ -d "$react/node_modules/react-dom" ]; then
    has npm || install npm || true
    echo "installing React for the tests of the React client"
    npm ci --prefix "$react" --no-audit --no-fund --loglevel=error ||
        echo "React cannot be installed: the tests of the React client are skipped" >&2
fi
