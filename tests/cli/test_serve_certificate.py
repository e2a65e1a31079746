"""What headrace serve reads of the certificate of its ports."""

import datetime as dt

import pytest
import trustme

from headrace.cli.serve.certificate import Certificate, read_certificate
from tests.gateway.authorities import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


def test_the_names_are_those_of_hosts_and_addresses(authority):
    """Names and addresses of both kinds are read; what nobody can connect to is not."""
    pair = authority.issue(
        "models.example", "*.models.example", "127.0.0.1", "::1", "me@models.example"
    )
    certificate = read_certificate(str(pair.certfile), str(pair.keyfile))
    assert set(certificate.names) == {"models.example", "*.models.example", "127.0.0.1", "::1"}
    assert not certificate.is_trusted


@pytest.mark.parametrize("name", ["models.example", "*.models.example", "127.0.0.1"])
def test_the_system_may_trust_it(authority, monkeypatch, name):
    """A certificate is trusted where the system trusts its authority."""
    pair = authority.issue(name)
    files = str(pair.certfile), str(pair.keyfile)
    assert read_certificate(*files) == Certificate((name,), is_trusted=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert read_certificate(*files) == Certificate((name,), is_trusted=True)


def test_what_cannot_be_read_has_no_names(authority, tmp_path):
    """A certificate that has expired, or files that are none: the service runs all the same."""
    nothing = Certificate((), is_trusted=False)
    pair = authority.issue("models.example")
    missing = str(tmp_path / "missing.pem")
    assert read_certificate(missing, str(pair.keyfile)) == nothing
    assert read_certificate(str(pair.keyfile), str(pair.keyfile)) == nothing
    old = trustme.CA().issue_cert(
        "models.example", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    )
    certfile, keyfile = tmp_path / "old.pem", tmp_path / "old.key"
    old.cert_chain_pems[0].write_to_path(certfile)
    old.private_key_pem.write_to_path(keyfile)
    assert read_certificate(str(certfile), str(keyfile)) == nothing
