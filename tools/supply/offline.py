"""Sees that govulncheck reads a database of files: usage offline.py COMMAND...

The database has the format of https://go.dev/doc/security/vuln/database and two entries: the published GO-2023-2102, of which this
module has the repaired version, and one made up for the version of zap that it has. The check must tell of the second
alone.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

WHEN = "2026-01-01T00:00:00Z"
ENTRIES = {
    "GO-2023-2102": ("golang.org/x/net", "golang.org/x/net/http2", "0.17.0", ["CVE-2023-39325"]),
    "GO-2099-0001": ("go.uber.org/zap", "go.uber.org/zap", "99.0.0", []),
}


def write(root: Path) -> None:
    files = {
        "index/db.json": {"modified": WHEN},
        "index/modules.json": [
            {"path": module, "vulns": [{"id": name, "modified": WHEN, "fixed": fixed}]}
            for name, (module, _, fixed, _) in ENTRIES.items()
        ],
        "index/vulns.json": [{"id": name, "modified": WHEN, "aliases": e[3]} for name, e in ENTRIES.items()],
    }
    for name, (module, package, fixed, aliases) in ENTRIES.items():
        files[f"ID/{name}.json"] = {
            "schema_version": "1.3.1", "id": name, "modified": WHEN, "published": WHEN, "aliases": aliases,
            "summary": name, "details": name, "references": [],
            "database_specific": {"url": f"https://pkg.go.dev/vuln/{name}"},
            "affected": [{
                "package": {"name": module, "ecosystem": "Go"},
                "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": fixed}]}],
                "ecosystem_specific": {"imports": [{"path": package}]},
            }],
        }  # fmt: skip
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(value), encoding="utf-8")


with tempfile.TemporaryDirectory() as directory:
    write(Path(directory))
    done = subprocess.run([*sys.argv[1:], "-db", f"file://{directory}", "./lease"], capture_output=True, text=True, check=False)
    told = [name for name in ENTRIES if name in done.stdout]
    if done.returncode != 3 or told != ["GO-2099-0001"]:
        sys.exit(f"exit code {done.returncode}, told of {told}:\n{done.stdout}{done.stderr}")
    print("the check reads a database of files: it told of GO-2099-0001 and not of GO-2023-2102")
