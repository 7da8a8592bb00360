import json, os, struct, sys, types
from _imp import extension_suffixes


def compiled(sources):
    """The folder of the compiled pass, or None and why not."""
    why = "no lib/verigraph/pass in the python environment; run make python"
    for prefix in (os.path.dirname(os.path.dirname(sys.executable)), sys.prefix):
        folder = os.path.join(prefix, "lib", "verigraph", "pass")
        try:
            with open(os.path.join(folder, "sources")) as f:
                found = f.read().split()
        except OSError:
            continue
        if found == [sources, extension_suffixes()[0]]:
            return folder, ""
        why = folder + " is of another program or interpreter; run make python"
    return None, why


def load(modules, folder):
    for name, text in modules:
        if folder and os.path.exists(os.path.join(folder, name + ".so")):
            __import__(name)
        else:
            m = sys.modules[name] = types.ModuleType(name)
            exec(compile(text, name + ".py", "exec"), m.__dict__)


def boot():
    r = sys.stdin.buffer
    n, = struct.unpack(">I", r.read(4))
    start = json.loads(r.read(n))
    folder, why = compiled(start["sources"])
    path = list(sys.path)
    try:
        sys.path[:0] = [folder] if folder else []
        load(start["modules"], folder)
    except ImportError as e:
        why = "%s: %s; run make python" % (folder, e)
        for name, _ in start["modules"]:
            sys.modules.pop(name, None)
        load(start["modules"], None)
    sys.path[:] = path
    sys.modules["analyzer"].main(start["seconds"], start["memory"], why)


boot()
