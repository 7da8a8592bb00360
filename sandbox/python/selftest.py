import errno, json, os, resource
checks = {}

def check(name, ok, detail=""):
    checks[name] = "" if ok else (str(detail) or "failed")

def refused(name, action, *codes):
    try:
        action()
    except OSError as exc:
        check(name, not codes or exc.errno in codes, exc)
    except Exception as exc:
        check(name, False, repr(exc))
    else:
        check(name, False, "it was possible")

def status():
    with open("/proc/self/status") as f:
        return dict(line.split(":", 1) for line in f)

try:
    st = {k: v.strip() for k, v in status().items()}
except OSError:
    st = None
if st is not None:
    check("no_new_privs", st.get("NoNewPrivs") == "1", st.get("NoNewPrivs"))
    check("seccomp_filter", st.get("Seccomp") == "2", st.get("Seccomp"))
    caps = {k: st.get(k) for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    check("no_capabilities", all(int(caps[k], 16) == 0 for k in ("CapInh", "CapPrm", "CapEff", "CapAmb")), caps)
    check("empty_bounding_set", int(caps["CapBnd"], 16) == 0, caps)
    others = [d for d in os.listdir("/proc") if d.isdigit() and d != "1"] if os.getpid() == 1 else ["?"]
    check("no_host_processes", others == [], others)
check("process_1", os.getpid() == 1, os.getpid())
check("not_root", os.getuid() != 0, os.getuid())

import _socket
refused("no_sockets", lambda: _socket.socket(1, 1), errno.EPERM, errno.EACCES)

def fork():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.fork()
    if pid == 0:
        libc._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "fork")

refused("no_processes", fork, errno.EPERM)
refused("no_signals_to_others", lambda: os.kill(os.getpid() + 1, 0), errno.EPERM)
refused("host_file", lambda: open(HOST_FILE).read(), errno.ENOENT, errno.EACCES)
refused("host_directory", lambda: os.listdir(HOST_DIR), errno.ENOENT, errno.EACCES)
refused("host_home", lambda: os.listdir(HOST_HOME), errno.ENOENT, errno.EACCES)
refused("write_usr", lambda: open("/usr/.probe", "w"), errno.EROFS, errno.EACCES)
refused("write_root", lambda: open("/.probe", "w"), errno.EROFS, errno.EACCES)
refused("landlock", lambda: open("/.canary").read(), errno.EACCES)
refused("write_data", lambda: open("selftest.csv", "a"), errno.EROFS, errno.EACCES)
try:
    with open("selftest.csv") as f:
        check("read_data", f.read() == "a,b\n", "other content")
    with open("probe.txt", "w") as f:
        f.write("x")
    os.remove("probe.txt")
    check("write_scratch", True)
except OSError as exc:
    check("write_scratch", False, exc)
fds = []
for fd in range(64):
    try:
        os.fstat(fd)
        fds.append(fd)
    except OSError:
        pass
check("descriptors", fds == [0, 1, 2, 3], fds)
extra = sorted(set(os.environ) - set(ENVIRONMENT))
check("environment", not extra, extra)
for name, value in LIMITS.items():
    check("rlimit_" + name.lower(), resource.getrlimit(getattr(resource, "RLIMIT_" + name)) == (value, value),
          resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
refused("remove_data", lambda: os.remove("selftest.csv"), errno.EROFS, errno.EACCES, errno.EBUSY)
print(json.dumps(checks))
