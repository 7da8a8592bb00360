# Run once by the supervisor, outside any session: what the interpreter is and holds. Reads the
# sources of the runner's parts from stdin and gives back their compiled code.
import base64
import importlib.metadata
import json
import marshal
import os
import re
import sys

packages = {}
for d in importlib.metadata.distributions():
    name = d.metadata["Name"]
    if name:
        packages[re.sub(r"[-_.]+", "-", name).lower()] = d.version

parts = {name: compile(source, f"<runner {name}>", "exec", dont_inherit=True) for name, source in json.load(sys.stdin).items()}
print(json.dumps({
    "real": os.path.realpath(sys.executable),
    "prefixes": sorted({sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}),
    "sys_path": [p for p in sys.path if p],
    "version": list(sys.version_info[:3]),
    "packages": packages,
    "runner": base64.b64encode(marshal.dumps(parts)).decode(),
}))
