"""Certificates for Envoy, signed by an authority that is made for the test."""

import trustme


def write_certificates(folder):
    """Make the folder with the files that tls.yaml and mtls.yaml name; return the authority."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    folder.mkdir()
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in server.cert_chain_pems))
    server.private_key_pem.write_to_path(folder / "tls.key")
    authority.cert_pem.write_to_path(folder / "client-ca.crt")
    return authority
