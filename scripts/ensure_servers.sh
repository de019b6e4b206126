#!/bin/sh
# What tests use: MariaDB, PostgreSQL, Redis, Prometheus, jars of Kafka and HDFS, and chromium. All optional: what
# cannot be had here is named in one sentence, its tests are skipped, and this script succeeds all the same.
# With the argument `clusters` the few jars that YARN needs beside HDFS's come, too.
set -u
cd "$(dirname "$0")/.."

kafka=$(sed -n 's/.*<kafka.version>\(.*\)<.*/\1/p' scripts/kafka/pom.xml)
hadoop=$(sed -n 's/.*<hadoop.version>\(.*\)<.*/\1/p' scripts/hdfs/pom.xml)
kafka_jars=${PENSTOCK_KAFKA_LIBS:-.servers/kafka-$kafka}
hdfs_jars=${PENSTOCK_HDFS_LIBS:-.servers/hadoop-$hadoop}

has() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" >/dev/null 2>&1; }
has_postgres() { has initdb || ls -d /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb >/dev/null 2>&1; }
has_kafka() { [ -n "${PENSTOCK_TEST_KAFKA:-}" ] || ls "$kafka_jars"/kafka_2.*.jar >/dev/null 2>&1; }
has_yarn() { [ "$1" != clusters ] || ls .servers/yarn/bcprov-*.jar >/dev/null 2>&1; }
has_hdfs() { ls "$hdfs_jars"/hadoop-client-minicluster-*.jar >/dev/null 2>&1; }

missing=
has mariadbd || missing="$missing mariadb-server"
has_postgres || missing="$missing postgresql"
has redis-server || has valkey-server || missing="$missing redis-server"
{ has prometheus && has promtool; } || missing="$missing prometheus"
has chromium || missing="$missing chromium"
has chromedriver || missing="$missing chromium-driver"
{ has_kafka && has_hdfs && has_yarn "${1:-}"; } || has mvn || missing="$missing maven"

if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing$missing (servers for tests) ..."
    # Tests start servers of their own: a policy of 101 keeps packages from starting the system's.
    policy=/usr/sbin/policy-rc.d
    ours=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && ours=yes
    fi
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    exec 9</var/lib/apt && flock 9  # the virtual environment may be made beside this, and want a package, too
    apt-get update -qq >"$log" 2>&1
    for package in $missing; do
        apt-get install -y -qq --no-install-recommends "$package" >>"$log" 2>&1 ||
            { echo "apt-get could not install $package; the end of what it said:"; tail -n 3 "$log"; }
    done
    exec 9<&-
    rm -f "$log"
    [ -z "$ours" ] || rm -f "$policy"
fi

# fetch <what> <pom> <directory>: the jars that a pom depends on, all of them or none.
fetch() {
    echo "Fetching $1 (for tests) ..."
    mkdir -p "$3.part"
    if mvn -q -B -f "$2" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$(cd "$3.part" && pwd)" >"$3.part/mvn.log" 2>&1; then
        rm -f "$3.part/mvn.log"
        rmdir "$3" 2>/dev/null
        mv "$3.part" "$3"
    else
        echo "Maven could not fetch it; the end of what it said:"
        tail -n 3 "$3.part/mvn.log"
        rm -rf "$3.part"
    fi
}
has_kafka || ! has mvn || fetch "Kafka $kafka" scripts/kafka/pom.xml "$kafka_jars"
has_hdfs || ! has mvn || fetch "HDFS $hadoop" scripts/hdfs/pom.xml "$hdfs_jars"
has_yarn "${1:-}" || ! has mvn || fetch "YARN" scripts/yarn/pom.xml .servers/yarn

has mariadbd || echo "No MariaDB here: its tests are skipped; mariadb-server is the package to install."
has_postgres || echo "No PostgreSQL here: its tests are skipped; postgresql is the package to install."
has redis-server || has valkey-server ||
    echo "No Redis here: its tests are skipped; redis-server is the package to install."
{ has prometheus && has promtool; } ||
    echo "No Prometheus here: its tests are skipped; prometheus is the package to install."
{ has chromium && has chromedriver; } ||
    echo "No chromium here: its tests are skipped; chromium and chromium-driver are the packages to install."
has_kafka ||
    echo "No Kafka here: its tests are skipped; install maven, or set PENSTOCK_KAFKA_LIBS to a directory of Kafka's jars, or PENSTOCK_TEST_KAFKA to the host:port of a broker that runs."
has_hdfs ||
    echo "No HDFS here: its tests are skipped; install maven, or set PENSTOCK_HDFS_LIBS to a directory with hadoop-client-minicluster and what it depends on."
has_yarn "${1:-}" || echo "No YARN here: its tests are skipped; install maven."
exit 0
