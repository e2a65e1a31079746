"""The files of TLS fit together, or one sentence says which one does not."""

import logging
import os
import subprocess

import pytest
import trustme

from headrace_server.certificates import CertificateError, CertificateFiles, TlsConfig

AUTHORITY = trustme.CA()
LEAF, OTHER = AUTHORITY.issue_cert("one.example"), AUTHORITY.issue_cert("two.example")


@pytest.fixture
def folder(tmp_path):
    """One file of each kind."""
    for name, content in {
        "cert": LEAF.cert_chain_pems[0].bytes(),
        "key": LEAF.private_key_pem.bytes(),
        "both": LEAF.private_key_and_cert_chain_pem.bytes(),
        "other-key": OTHER.private_key_pem.bytes(),
        "ca": AUTHORITY.cert_pem.bytes(),
        "cas": AUTHORITY.cert_pem.bytes() + trustme.CA().cert_pem.bytes(),
        "junk": b"\x00\xffjunk",
        "empty": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def config_of(folder, cert, key, authorities=None):
    return TlsConfig(
        folder / cert, folder / key, None if authorities is None else folder / authorities
    )


@pytest.mark.parametrize(
    ("cert", "key", "authorities"),
    [("cert", "key", None), ("both", "both", None), ("cert", "key", "ca"), ("cert", "key", "cas")],
)
def test_what_fits_is_read(folder, cert, key, authorities):
    """A file may have certificate and key; there may be several authorities."""
    certificates = CertificateFiles(config_of(folder, cert, key, authorities)).first
    assert certificates.chain == (folder / cert).read_bytes()
    assert certificates.key == (folder / key).read_bytes()
    assert certificates.authorities == (authorities and (folder / authorities).read_bytes())
    assert "PRIVATE" not in repr(certificates) or cert == "both"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("cert", "other-key"), "{key} is not the private key of the certificate in {cert}."),
        (("junk", "key"), "{cert} must hold a certificate in PEM, and {key} its private key."),
        (("empty", "key"), "{cert} must hold a certificate in PEM, and {key} its private key."),
        (("cert", "junk"), "{cert} must hold a certificate in PEM, and {key} its private key."),
        (("key", "cert"), "{cert} must hold a certificate in PEM, and {key} its private key."),
        (("none", "key"), "{cert} cannot be read: No such file or directory."),
        (("cert", "none"), "{key} cannot be read: No such file or directory."),
        (("cert", "key", "none"), "{ca} cannot be read: No such file or directory."),
        (("cert", "key", "junk"), "{ca} must hold certificates in PEM."),
        (("cert", "key", "empty"), "{ca} must hold certificates in PEM."),
        (("cert", "key", "key"), "{ca} must hold certificates in PEM."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_fit_is_one_sentence(folder, files, message):
    """It names the file at fault."""
    config = config_of(folder, *files)
    with pytest.raises(CertificateError) as caught:
        CertificateFiles(config)
    assert str(caught.value) == message.format(
        cert=config.certfile, key=config.keyfile, ca=config.ca_certs
    )


def test_an_encrypted_key_is_refused_and_nobody_is_asked(folder):
    """A server that waits for a password at a terminal has not started."""
    subprocess.run(
        ["openssl", "pkey", "-in", "key", "-aes256", "-passout", "pass:x", "-out", "locked"],
        cwd=folder,
        check=True,
    )
    with pytest.raises(CertificateError, match="decrypt it with: openssl pkey"):
        CertificateFiles(config_of(folder, "cert", "locked"))


def test_only_what_has_changed_is_read_again(folder):
    """Each handshake asks, and costs three looks at files."""
    files = CertificateFiles(config_of(folder, "cert", "key", "ca"))
    assert files.read_if_changed() is None
    for name, content in [
        ("cert", OTHER.cert_chain_pems[0].bytes()),
        ("key", OTHER.private_key_pem.bytes()),
    ]:
        (folder / "new").write_bytes(content)
        (folder / "new").rename(folder / name)
    certificates = files.read_if_changed()
    assert certificates is not None
    assert certificates.key == OTHER.private_key_pem.bytes()
    assert files.read_if_changed() is None


def test_what_is_bad_is_told_once_and_what_is_good_again_is_taken(folder, caplog):
    """A renewal writes one file after the other."""
    caplog.set_level(logging.INFO)
    files = CertificateFiles(config_of(folder, "cert", "key"))
    (folder / "key").write_bytes(OTHER.private_key_pem.bytes())
    assert [files.read_if_changed() for _ in range(3)] == [None] * 3
    (folder / "cert").unlink()
    assert [files.read_if_changed() for _ in range(3)] == [None] * 3
    (folder / "cert").write_bytes(OTHER.cert_chain_pems[0].bytes())
    certificates = files.read_if_changed()
    assert certificates is not None
    assert certificates.chain == OTHER.cert_chain_pems[0].bytes()
    bad, good = "bad certificate, the old one stays in use", "certificate read again"
    assert [record.message for record in caplog.records] == [bad, bad, good]


def test_a_pipe_is_an_error_and_no_handshake_waits_for_it(folder, caplog):
    """It has no end before somebody writes to it."""
    files = CertificateFiles(config_of(folder, "cert", "key", "ca"))
    (folder / "ca").unlink()
    os.mkfifo(folder / "ca")
    assert files.read_if_changed() is None
    [record] = caplog.records
    assert record.fields["cause"] == f"{folder / 'ca'} is no regular file."


def test_files_that_may_be_read_at_last_are_read(folder):
    """To give the rights changes neither their time nor their size."""
    files = CertificateFiles(config_of(folder, "cert", "key"))
    (folder / "key").chmod(0o640)
    assert files.read_if_changed() is not None
