#!/bin/sh
# The servers that tests use: MariaDB, PostgreSQL, Redis, and Kafka's jars. All optional: what cannot be had
# here is named in one sentence, its tests are skipped, and this script succeeds all the same.
set -u
cd "$(dirname "$0")/.."

kafka=$(sed -n 's/.*<kafka.version>\(.*\)<.*/\1/p' scripts/kafka/pom.xml)
jars=${PENSTOCK_KAFKA_LIBS:-.servers/kafka-$kafka}

has() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" >/dev/null 2>&1; }
has_postgres() { has initdb || ls -d /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb >/dev/null 2>&1; }
has_kafka() { [ -n "${PENSTOCK_TEST_KAFKA:-}" ] || ls "$jars"/kafka_2.*.jar >/dev/null 2>&1; }

missing=
has mariadbd || missing="$missing mariadb-server"
has_postgres || missing="$missing postgresql"
has redis-server || has valkey-server || missing="$missing redis-server"
has_kafka || has mvn || missing="$missing maven"

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
    apt-get update -qq >"$log" 2>&1
    for package in $missing; do
        apt-get install -y -qq --no-install-recommends "$package" >>"$log" 2>&1 ||
            { echo "apt-get could not install $package; the end of what it said:"; tail -n 3 "$log"; }
    done
    rm -f "$log"
    [ -z "$ours" ] || rm -f "$policy"
fi

if ! has_kafka && has mvn; then
    echo "Fetching Kafka $kafka (a broker for tests) ..."
    mkdir -p "$jars.part"
    if mvn -q -B -f scripts/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$(cd "$jars.part" && pwd)" >"$jars.part/mvn.log" 2>&1; then
        rm -f "$jars.part/mvn.log"
        rmdir "$jars" 2>/dev/null
        mv "$jars.part" "$jars"
    else
        echo "Maven could not fetch it; the end of what it said:"
        tail -n 3 "$jars.part/mvn.log"
        rm -rf "$jars.part"
    fi
fi

has mariadbd || echo "No MariaDB here: its tests are skipped; mariadb-server is the package to install."
has_postgres || echo "No PostgreSQL here: its tests are skipped; postgresql is the package to install."
has redis-server || has valkey-server ||
    echo "No Redis here: its tests are skipped; redis-server is the package to install."
has_kafka ||
    echo "No Kafka here: its tests are skipped; install maven, or set PENSTOCK_KAFKA_LIBS to a directory of Kafka's jars, or PENSTOCK_TEST_KAFKA to the host:port of a broker that runs."
exit 0
