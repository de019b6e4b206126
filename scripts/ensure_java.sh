#!/bin/sh
# Is there a Java that Spark can run on? Installs one if this is Debian or Ubuntu and we are root.
set -eu

wanted=17
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

major() { "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1; }

suits() {
    found=$(major || true)
    [ -n "$found" ] && [ "$found" -ge "$wanted" ]
}

if suits; then exit 0; fi
if [ -n "${JAVA_HOME:-}" ]; then
    echo "JAVA_HOME is $JAVA_HOME, which is not Java $wanted or newer: correct it or unset it." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Java (Spark runs on it) ..."
    apt-get update -qq >/dev/null
    apt-get install -y -qq "openjdk-$wanted-jre-headless" >/dev/null 2>&1 ||
        apt-get install -y -qq default-jre-headless >/dev/null
    if suits; then exit 0; fi
fi
echo "Spark needs Java $wanted or newer and found ${found:-none}: install a JRE (Debian and Ubuntu: openjdk-$wanted-jre-headless) and set JAVA_HOME if it is not on the PATH." >&2
exit 1
