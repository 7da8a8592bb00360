"""Tokens and TLS of a service: of the adapters' keys in verl's configuration, and of the commands' flags."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from verigraph.feed import Feed

TOKEN_ENV = "VERIGRAPH_TOKEN"


def read_token(
    given: Callable[[str], Any], named: Callable[[str], str], env: Mapping[str, str], problems: list[str]
) -> str | None:
    """The bearer token of a file or of the environment, never of the configuration or the command line.

    given: the value of token_file and token_env; named: what the user calls such a key; problems: gets a
    sentence for each thing that is wrong
    """
    if path := given("token_file"):
        try:
            token = Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            problems.append(f"{named('token_file')}: {path}: {getattr(error, 'strerror', None) or 'no text'}")
            return None
        if not token:
            problems.append(f"{named('token_file')}: {path} is empty")
        return token
    name = given("token_env")
    if name and name not in env:
        problems.append(f"{named('token_env')}: {name} is not in the environment")
    return env.get(name or TOKEN_ENV)


def read_tls(
    given: Callable[[str], Any], named: Callable[[str], str], problems: list[str]
) -> dict[str, str] | None:
    """The PEM files ca, cert and key by name, as tls takes them; None: talk in the clear. See read_token."""
    files = {k: str(v) for k in ("ca", "cert", "key") if (v := given(k))}
    for name, path in files.items():
        if not os.access(path, os.R_OK):
            problems.append(f"{named(name)}: {path} is no file that can be read")
    if ("cert" in files) != ("key" in files):
        problems.append(f"{named('cert')} and {named('key')} go together")
    return files if files or given("tls") else None


def tls(
    ca: str | Path | None = None, cert: str | Path | None = None, key: str | Path | None = None
) -> grpc.ChannelCredentials:
    """Credentials from PEM files. Raises OSError for a file that cannot be read, ValueError for half a pair.

    ca: who signed the server's certificate; None trusts the authorities that gRPC brings
    cert, key: the client's own, where the server asks for one (mTLS)
    """
    if bool(cert) != bool(key):
        raise ValueError("cert and key go together")
    root, own_key, chain = (Path(p).read_bytes() if p else None for p in (ca, key, cert))
    return grpc.ssl_channel_credentials(root, own_key, chain)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that connects: the adapters' keys under +remote_rollout, with dashes."""
    group = parser.add_argument_group("connection")
    group.add_argument("--token-env", metavar="NAME", help=f"variable that holds the token ({TOKEN_ENV})")
    group.add_argument("--token-file", metavar="FILE", help="file that holds the token")
    group.add_argument("--tls", action="store_true", help="TLS with the authorities that gRPC brings")
    group.add_argument("--ca", metavar="FILE", help="TLS with this authority (PEM)")
    group.add_argument("--cert", metavar="FILE", help="the client's certificate, where the service asks for one")
    group.add_argument("--key", metavar="FILE", help="the key of --cert")


def open_feed(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Feed:
    """The feed that the flags of add_flags, --feed and --cursor name. Ends with 2 where they are wrong."""
    problems: list[str] = []

    def given(name: str) -> Any:
        return getattr(args, name)

    def flag(name: str) -> str:
        return "--" + name.replace("_", "-")

    token = read_token(given, flag, os.environ, problems)
    files = read_tls(given, flag, problems)
    if problems:
        parser.error("; ".join(problems))
    return Feed(args.feed, args.cursor, token, None if files is None else tls(**files))
