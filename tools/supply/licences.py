"""Prints the licence of every component of a CycloneDX file, and fails where one is missing.

python tools/supply/licences.py out/sbom.json
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    components = json.load(f)["components"]
missing = 0
for c in sorted(components, key=lambda c: c["name"]):
    found = (c.get("evidence") or {}).get("licenses") or c.get("licenses") or []
    names = sorted({entry["license"].get("id") or entry["license"].get("name", "") for entry in found})
    missing += not names
    print(f"{c['name']}\t{c.get('version', '')}\t{' AND '.join(names) or 'NOT FOUND'}")
print(f"{len(components)} components, {missing} without a licence", file=sys.stderr)
sys.exit(1 if missing else 0)
