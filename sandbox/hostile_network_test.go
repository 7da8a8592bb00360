package sandbox

import (
	"fmt"
	"testing"
)

// nobodyWasReached asserts that no listener of the host was talked to.
func nobodyWasReached(t *testing.T, f *field, _ Session, _ *graph) string {
	t.Helper()
	if n := f.reached.Load(); n != f.before.Reached {
		return fmt.Sprintf("the host was reached %d times", n-f.before.Reached)
	}
	return ""
}

const noNetwork = "this session has no network"

// network reaches for other machines, the host's services and its sockets.
var network = []hostile{
	{rule: "no socket of any family but a local pair", off: "seccomp", code: "[sc('socket', f, 1, 0) for f in range(1, 46)] == ['EPERM'] * 45, [sc('socket', f, t, 0) for f, t in ((2, 2), (2, 3), (10, 2), (16, 3), (17, 3), (40, 1))]", says: `^\(True, \['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\]\)`},
	{rule: "a local pair is allowed and stays within the session", twin: "import socket\nsocket.socket(); 1", code: "import socket\na, b = socket.socketpair(); a.sendall(b'x'); b.recv(1)", says: `^b'x'\n$`},
	{rule: "no pair of another family", off: "seccomp", code: "b = ctypes.create_string_buffer(8)\n[sc('socketpair', f, 1, 0, b) for f in (2, 10, 16, 1 << 32 | 1)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no connection to the host", off: "audit seccomp landlock net", code: "import socket; socket.create_connection(('127.0.0.1', PORT), 1)", status: "exception", says: noNetwork, host: nobodyWasReached},
	{rule: "no connection below the interpreter's own refusals", off: "audit seccomp landlock net", code: "import _socket\ns = _socket.socket.__new__(_socket.socket)\ntried(lambda: s.__init__(2, 1, 0)), tried(lambda: s.connect(('127.0.0.1', PORT)))", says: `^\('(EPERM|EACCES|PermissionError)', '(EBADF|OSError|PermissionError)'\)`, host: nobodyWasReached},
	{rule: "no connection by raw calls", off: "seccomp landlock net", code: "a = ctypes.create_string_buffer(bytes([2, 0]) + PORT.to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8), 16)\n[sc('connect', fd, a, 16) for fd in (0, 1, 3, libc.socket(2, 1, 0))]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM'\]`, host: nobodyWasReached},
	{rule: "no name is resolved", off: "audit", code: "import socket; socket.getaddrinfo('example.com', 80)", status: "exception", says: noNetwork},
	{rule: "no name is resolved by the C library", off: "namespaces landlock", code: "libc.gethostbyname.restype = ctypes.c_void_p\n[libc.gethostbyname(n) for n in (b'localhost.example.com', b'localhost')]", says: `^\[None, None\]`},
	{rule: "no metadata service", off: "audit", code: "import urllib.request; urllib.request.urlopen('http://169.254.169.254/latest/meta-data/', timeout=1)", status: "exception", says: noNetwork},
	{rule: "no metadata service over IPv6", off: "audit", code: "import socket; socket.create_connection(('fd00:ec2::254', 80), 1)", status: "exception", says: noNetwork},
	{rule: "pandas reads no address", off: "audit seccomp landlock net", code: "import pandas as pd; pd.read_csv(f'http://127.0.0.1:{PORT}/a.csv')", status: "exception", says: noNetwork, host: nobodyWasReached},
	{rule: "no datagram", off: "audit seccomp net", code: "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))", status: "exception", says: noNetwork, host: nobodyWasReached},
	{rule: "no raw packet", off: "seccomp", code: "import socket\n[tried(lambda: socket.socket(f, t, p)) for f, t, p in ((2, 3, 1), (17, 3, 0x300), (16, 3, 0))]", says: `^\['?(EPERM|PermissionError)'?, 'EPERM', 'EPERM'\]`},
	{rule: "no Unix socket of the host", off: "audit seccomp namespaces", code: "import socket\ntried(lambda: socket.socket(socket.AF_UNIX).connect(SOCKET))", says: eperm, host: nobodyWasReached},
	{rule: "no abstract socket of the host", off: "audit seccomp landlock net", code: "import socket\ntried(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + ABSTRACT))", says: eperm, host: nobodyWasReached},
	{rule: "a pair cannot be connected elsewhere", off: "seccomp landlock net", code: "import socket\ndef pairs():\n    for kind in (2, 3, 2 | 1 << 19, 3 | 1 << 11, 1 << 32 | 2):\n        fds = (ctypes.c_int * 2)()\n        yield sc('socketpair', 1, kind, 0, fds)\n        if fds[0]:\n            a = ctypes.create_string_buffer(b'\\1\\0\\0' + ABSTRACT.encode() + b'd'); sc('sendto', fds[0], b'x', 1, 0, a, len(a) - 1)\na, b = socket.socketpair()\nlist(pairs()), tried(lambda: a.connect(SOCKET)), tried(lambda: a.sendto(b'x', '\\0' + ABSTRACT))", says: `^\(\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\], '?(EPERM|PermissionError)'?, '?(EPERM|PermissionError|EISCONN)'?\)`, host: nobodyWasReached},
	{rule: "nothing listens", off: "seccomp", code: "import socket\na, b = socket.socketpair()\n[sc('bind', a.fileno(), b'\\1\\0x', 3), sc('listen', a.fileno(), 1), sc('accept4', a.fileno(), 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "event loops work without a network", twin: "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', PORT))", code: "import asyncio\nasyncio.run(asyncio.sleep(0, 7))", says: `^7\n$`},
}
