import marshal, os
def read(n):
    b = b""
    while len(b) < n:
        c = os.read(3, n - len(b))
        if not c:
            os._exit(0)
        b += c
    return b
def run(name):
    p = marshal.loads(read(int.from_bytes(read(4), "big")))
    space = {"__name__": "verigraph." + name, "parts": p}
    exec(p[name], space)
    space["main"]()
