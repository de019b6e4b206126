"""The ports and tokens that settings ask for."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.rest.doors import open_door, token_of


def settings(**made: str) -> Configuration:
    return Configuration.from_dict(
        {key.replace("__", ".").replace("_", "-"): value for key, value in made.items()}
    )


def test_a_door_on_loopback_answers_to_loopbacks_names_alone() -> None:
    door = open_door(settings(rest__port="0"))
    with door.socket:
        assert (
            door.url == f"http://127.0.0.1:{door.port}"
            and "*" not in door.hosts
            and "localhost" in door.hosts
        )


def test_an_open_door_answers_to_this_host_and_to_a_given_name() -> None:
    made = {"rest__port": "0", "rest__bind_address": "0.0.0.0", "rest__address": "Jobs.example"}
    with pytest.raises(ConfigError, match="tokens would cross that in clear"):
        open_door(settings(**made))
    door = open_door(settings(**made, penstock__rest__allow_plain="true"))
    with door.socket:
        assert {"*", "jobs.example", socket.gethostname().lower()} <= door.hosts
        assert door.url == f"http://Jobs.example:{door.port}"


def test_a_taken_port_gives_the_next() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        door = open_door(settings(rest__port=str(port)))
        with door.socket:
            assert door.wanted == port < door.port


def test_a_token_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{'s3cret' * 4}\n")
    file.chmod(0o600)
    assert token_of(settings(penstock__rest__bearer_file=str(file))) == "s3cret" * 4
    assert token_of(settings()) != token_of(settings())
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read"):
        token_of(settings(penstock__rest__bearer_file=str(file)))
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(ConfigError, match="16 or more"):
        token_of(settings(penstock__rest__bearer_file=str(file)))
    with pytest.raises(ConfigError, match="cannot be read"):
        token_of(settings(penstock__rest__bearer_file=str(tmp_path / "none")))


def test_tls_without_a_usable_key_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs security\.ssl\.rest\.keystore"):
        open_door(settings(security__ssl__rest__enabled="true", rest__port="0"))
    with pytest.raises(ConfigError, match="cannot be used"):
        nowhere = str(tmp_path / "none.pem")
        open_door(
            settings(
                security__ssl__rest__enabled="true", security__ssl__rest__keystore=nowhere, rest__port="0"
            )
        )
