"""A TLS proxy with a certificate of its own: makes an authority and a certificate for ADDRESS (127.0.0.1) in FOLDER, listens there, and forwards each connection to HOST:PORT. Prints its port."""

import datetime
import ipaddress
import pathlib
import socket
import ssl
import sys
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


def certificate(name, key, issuer, issuer_key, extensions):
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def forward(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main(folder, host, port, own_address="127.0.0.1"):
    folder = pathlib.Path(folder)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = x509.BasicConstraints(ca=True, path_length=None)
    (folder / "ca.pem").write_bytes(pem(certificate("authority", authority, "authority", authority, [ca])))
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(own_address))])
    key = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "own.pem").write_bytes(key + pem(certificate("proxy", own, "authority", authority, [address])))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    with socket.create_server((own_address, 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            client, _ = server.accept()
            try:
                client = context.wrap_socket(client, server_side=True)
                target = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            for pair in [(client, target), (target, client)]:
                threading.Thread(target=forward, args=pair, daemon=True).start()


main(*sys.argv[1:])
