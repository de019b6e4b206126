"""URLs of Java's drivers: what they say about the connection holds here, or is refused."""

from __future__ import annotations

import pytest

from penstock.connectors.database.address import parse_url
from penstock.connectors.database.connection import open_dialect
from penstock.core.errors import ConfigError
from tests.unit.connectors.database_kit import MARIADB, POSTGRESQL, database


@pytest.fixture(params=(MARIADB, POSTGRESQL))
def db(request):
    yield from database(request, request.param)


def options_of(url):
    return dict(parse_url(f"jdbc:{url}", "ann", "pw").options)


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        ("useSSL=false&serverTimezone=UTC&rewriteBatchedStatements=true&characterEncoding=utf8", {}),
        ("useSSL=true", {"ssl_verify_mode": "none"}),
        ("requireSSL=true&useUnicode=true", {"ssl_verify_mode": "none"}),
        ("sslMode=REQUIRED", {"ssl_verify_mode": "none"}),
        ("sslMode=trust", {"ssl_verify_mode": "none"}),
        ("sslMode=DISABLED&useSSL=true", {}),
        ("sslMode=disable", {}),
        ("sslMode=PREFERRED", {}),
        ("connectTimeout=2500&socketTimeout=0", {"connect_timeout": "3"}),
    ],
)
def test_options_of_mysql(options, ours):
    assert options_of(f"mysql://db/shop?{options}") == ours
    assert open_dialect(parse_url(f"jdbc:mysql://db/shop?{options}", "ann")) is not None


@pytest.mark.parametrize(
    "options", ["sslMode=VERIFY_CA", "sslMode=verify-full", "useSSL=true&verifyServerCertificate=true"]
)
def test_a_check_that_needs_a_key_store_is_refused_with_the_way_out(options):
    with pytest.raises(ConfigError, match="ssl_ca"):
        parse_url(f"jdbc:mysql://db/shop?{options}", "ann")
    with pytest.raises(ConfigError, match="milliseconds"):
        parse_url("jdbc:mysql://db/shop?connectTimeout=soon", "ann")


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        ("reWriteBatchedInserts=true&stringtype=unspecified", {}),
        ("ssl=false", {}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl", {"sslmode": "verify-full"}),
        ("ssl=true&sslmode=require", {"sslmode": "require"}),
        ("sslmode=verify-ca&sslrootcert=/ca.pem", {"sslmode": "verify-ca", "sslrootcert": "/ca.pem"}),
        ("currentSchema=a, b", {"options": "-c search_path=a,b"}),
        ("connectTimeout=5&ApplicationName=x", {"connect_timeout": "5", "application_name": "x"}),
    ],
)
def test_options_of_postgresql(options, ours):
    assert options_of(f"postgresql://db/shop?{options}") == ours


def test_a_server_without_tls_is_not_spoken_to_in_plain_if_the_url_asks_for_it(db):
    server, scheme = db.server, "mysql" if db.is_mysql else "postgresql"
    url = f"jdbc:{scheme}://{server.host}:{server.port}/{server.database}"
    wish = "?useSSL=true" if db.is_mysql else "?ssl=true&sslmode=require"
    with pytest.raises(Exception, match="SSL"):
        open_dialect(parse_url(url + wish, server.user, server.password)).connect()
    harmless = "?useSSL=false&serverTimezone=UTC" if db.is_mysql else "?ssl=false&currentSchema=pg_catalog"
    connection = open_dialect(parse_url(url + harmless, server.user, server.password)).connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1" if db.is_mysql else "SHOW search_path")
        assert cursor.fetchone()[0] in (1, "pg_catalog")
    connection.close()
