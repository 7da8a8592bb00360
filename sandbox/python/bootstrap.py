import marshal, os
def read(n):
    b = b""
    while len(b) < n:
        c = os.read(3, n - len(b))
        if not c:
            os._exit(0)
        b += c
    return b
p = marshal.loads(read(int.from_bytes(read(4), "big")))
exec(p["runner"], {"__name__": "verigraph.runner", "parts": p})
