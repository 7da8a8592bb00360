"""The static pass as a process: framed requests in, one analysis each out.

A request is {"source": text, "state": {key: value}} as JSON; the answer is evidence.Analysis as marshal writes
it, see wire.go. The process keeps nothing between requests but parsed helper sources. It reads source and never runs it.
"""

import ast
import gc
import json
import marshal
import struct
import sys
import time
import warnings

from calls import Calls
from machine import STATEMENTS, Heap, TooComplex
from quick import Quick
from state import Coder, forget, plain
from taint import Scan
from kinds import *
from values import DELETED, new_value

FLAGS = ast.PyCF_ONLY_AST | getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)
MAX_EXPRESSION = 200
STACK = 64 << 20


class Pass(Calls):
    """All parts of the interpreter."""


def parse(source):
    """The cell's syntax tree, or Python's own message about it."""
    try:
        return compile(source, "<cell>", "exec", FLAGS, True), None
    except SyntaxError as e:
        where = " (line %d)" % e.lineno if e.lineno else ""
        return None, "%s: %s%s" % (type(e).__name__, e.msg, where)
    except ValueError as e:
        return None, "SyntaxError: %s" % e
    except UnicodeError as e:
        return None, "SyntaxError: %s" % e
    except RecursionError:
        return None, "RecursionError: maximum recursion depth exceeded during compilation"
    except MemoryError:
        return None, "MemoryError: the cell is too complex to parse"


def analyze(source, raw, kept=None):
    """The analysis of a cell. What is put into kept lives until the caller lets go of it."""
    default = sys.getrecursionlimit()
    tree, error = parse(source)
    if error is not None:
        return {"statements": None, "error": error}
    sys.setrecursionlimit(8000)
    try:
        cell = Cell(source, raw)
        if kept is not None:
            kept += (tree, cell)
        return cell.run(tree)
    finally:
        sys.setrecursionlimit(default)


class Cell:
    """One cell's analysis over the state that came with it."""

    def __init__(self, source, raw):
        self.source = source
        self.lines = None
        self.machine = m = Pass({}, 0, source)
        self.coder = Coder(raw, m.module, source)
        for name, value in raw.items():
            if not name.startswith("$"):
                v = self.coder.decode(value)
                m.keep(name, v)
                m.used |= v.own | v.holds
        # Closures and defaults hold roots too.
        for v in m.base.values():
            if v.code:
                m.heap = _NO_HEAP
                m.used |= m.code_reach(v.code, set())
        if m.used:
            m.widen()
            # Roots are allotted in pairs: one bit in use takes the other.
            m.used |= (m.used & m.OBJ) << 1 | (m.used & m.BUF) >> 1
        self.find_lost(raw)
        self.quick = Quick(source, m.base)

    def find_lost(self, names):
        """What is known of no name may be, or hold, any object that there is."""
        m = self.machine
        lost = [m.base[name] for name in names if name in m.base and m.base[name].kind == LOST_KIND]
        if lost and not m.used:
            m.begin()
            m.root(("lost",))
        for v in lost:
            v.kind, v.own = ANY, m.used

    def run(self, tree):
        return {"statements": [self.statement(s) for s in tree.body]}

    def statement(self, s):
        m = self.machine
        m.begin()
        line = s.lineno
        if s.__class__ in DECORATED:
            for d in s.decorator_list:
                line = min(line, d.lineno)
        out = {"line": line, "end_line": s.end_lineno}
        self.scan = None
        try:
            STATEMENTS[s.__class__](m, s)
            if not self.quick.passes(s, len(m.calls)):
                self.search(s)
            if m.bound:
                self.raised(s, out)
            self.describe(out)
            return out
        except TooComplex:
            trouble = "too complex to follow"
        except RecursionError:
            trouble = "nested too deeply to follow"
        except Exception as e:
            # A fault of the pass must cost precision, never a cell: nothing is claimed of the statement.
            trouble = "internal: %s" % type(e).__name__
        finally:
            m.total += m.steps
        self.search(s)
        out = {"line": line, "end_line": s.end_lineno}
        self.give_up(s, trouble, out)
        return out

    def search(self, s):
        """Adds the denied constructs that stand in s."""
        self.scan = Scan(self.module_path)
        self.machine.taints |= self.scan.scan(s)

    def module_path(self, name):
        env = self.machine.module.env
        v = env.get(name) if env else None
        if v is None or v.kind != LIB:
            v = self.machine.base.get(name)
        return v.lib if v is not None and v.kind in (LIB, BUILTIN) else None

    # ---- results ------------------------------------------------------------------------------

    def describe(self, out):
        m = self.machine
        module = m.module
        env, must = module.env or {}, module.must
        writes, maybe, deletes = [], (), ()
        if env:
            maybe, deletes = [], []
            for name, v in env.items():
                if v is DELETED:
                    if name in must:
                        deletes.append(name)
                    continue
                if v.kind in LIBRARY and not v.own:
                    old = m.base.get(name)
                    if old is None or old.kind in LIBRARY and not old.own:
                        continue
                (writes if name in must else maybe).append(name)
        mutated = self.mutated(env, must) if m.mutated else ()
        reads = m.reads
        control = (m.ctl | m.loaded) & ~reads
        if reads:
            out["reads"] = self.names(reads)
        if control:
            out["control"] = self.names(control)
        if writes:
            if len(writes) > 1:
                writes.sort()
            out["writes"] = writes
        if maybe or mutated or deletes or m.written or m.untracked or m.taints:
            put(out, "maybe_writes", maybe)
            put(out, "mutates", mutated)
            put(out, "deletes", deletes)
            put(out, "written_files", m.written)
            put(out, "untracked", m.untracked)
            put(out, "taints", m.taints)
        if m.file_bits:
            self.files(m.file_bits, out)
        if m.flags & DYNAMIC:
            out["dynamic_files"] = True
        if m.dynamic_writes:
            out["dynamic_writes"] = True
        if m.calls or self.scan is not None and self.scan.calls:
            calls = [self.call(c) for c in m.calls.values()]
            if self.scan is not None and self.scan.calls:
                calls += self.calls_in_bodies(m.calls)
            if len(calls) > 1:
                calls.sort(key=place)
            out["calls"] = calls
        if reads or m.file_bits or m.flags & DYNAMIC:
            self.flows(env, writes, maybe, mutated, out)
        if env or mutated or m.unseen:
            self.definitions(env, mutated, out)

    def flows(self, env, writes, maybe, mutated, out):
        """What flows into each name that is bound or changed, where that is less than all that the statement reads."""
        m = self.machine
        all_reads, files = m.reads, m.file_bits or m.flags & DYNAMIC
        flows = {}
        for names in (writes, maybe, mutated):
            for name in names:
                if name in mutated and names is not mutated:
                    continue
                reads = marks = 0
                v = env.get(name)
                if v is not None and v is not DELETED:
                    v = m.live(v)
                    reads, marks = v.reads, v.files or v.flags
                if names is mutated:
                    r, f = self.changed(m.base[name])
                    reads, marks = reads | r, marks or f
                if reads & all_reads != all_reads or files and not marks:
                    flow = flows[name] = {}
                    if reads:
                        flow["reads"] = self.names(reads)
                    if marks:
                        flow["files"] = True
        if flows:
            out["flows"] = flows

    def changed(self, v):
        """What flowed into an object in place: reads, and whether anything came from files."""
        m = self.machine
        reach = m.reach(v)
        reads = marks = 0
        for mask, (r, f, g) in m.changes.items():
            if mask & reach:
                reads, marks = reads | r, marks or f or g
        return reads, marks

    def mutated(self, env, must):
        """The names whose objects the statement may change in place."""
        m = self.machine
        mutated = []
        for name, v in m.base.items():
            reach = v.own | v.holds
            if v.code:
                reach |= m.code_reach(v.code, set())
            if reach & m.mutated:
                mutated.append(name)
                if v.kind == FILE and v.own & m.mutated:
                    m.write_through(v)
        # Stored values of files opened earlier and written through a wrapper.
        for name in mutated:
            v = m.base[name]
            if v.kind == FILE and name not in env:
                m.write_through(v)
        # A name that is bound anew has its version from that.
        return [n for n in mutated if not (n in must and n in env)]

    def files(self, mask, out):
        names = sorted([f for i, f in enumerate(self.machine.files) if mask >> i & 1])
        if names[0][:1] != PATTERN:
            out["files"] = names
            return
        put(out, "files", [f for f in names if f[:1] != PATTERN])
        out["file_patterns"] = [f[1:] for f in names if f[:1] == PATTERN]

    def raised(self, s, out):
        """Names that may be bound anew when the statement raises, with what is then known of them: nothing."""
        names = self.machine.bound if binds_early(s) else self.machine.hasty
        if names:
            out["raised"] = dict.fromkeys(sorted(names), LOST)

    def definitions(self, env, mutated, out):
        m = self.machine
        delta = {}
        changed = m.heap.owners or m.mutated
        if not changed and not m.unseen:
            # The common case: names are bound anew, and nothing else happened.
            for name, v in env.items():
                if v is DELETED or v.code:
                    break
            else:
                for name, v in env.items():
                    delta[name] = plain(v)
                    m.keep(name, clean(v))
                out["definitions"] = delta
                return
        frozen = {}
        for name, v in env.items():
            if v is DELETED:
                if name in m.module.must:
                    frozen[name] = None
            else:
                frozen[name] = m.live(v) if changed else v
        for name in mutated:
            if name not in env:
                v = m.base[name]
                live = m.live(v)
                if live is not v or v.code:
                    frozen[name] = live
        for name in m.unseen:
            # Names that the state does not hold, seen for the first time.
            if name not in frozen and name in m.base:
                frozen[name] = m.live(m.base[name])
        coder = self.coder
        for name, v in frozen.items():
            if v is None:
                delta[name] = None
                m.base.pop(name, None)
            else:
                delta[name] = coder.encode(v)
        if self.coder.new:
            self.coder.raw.update(self.coder.new)
            delta.update(self.coder.new)
            self.coder.new = {}
        self.coder.closures = {}
        for name, v in frozen.items():
            if v is not None:
                m.keep(name, self.coder.decode(delta[name]) if v.code else clean(v))
        if delta:
            out["definitions"] = delta

    def names(self, mask):
        names = self.machine.names
        if not mask & (mask - 1):
            return [names[mask.bit_length() - 1]]
        found = []
        while mask:
            low = mask & -mask
            found.append(names[low.bit_length() - 1])
            mask ^= low
        found.sort()
        return found

    def call(self, entry):
        lib, node, dynamic, arguments, template = entry
        out = {"primitive": lib, "line": node.lineno, "column": node.col_offset,
               "end_line": node.end_lineno, "end_column": node.end_col_offset}
        if template is not None:
            out["template"] = template
        if arguments:
            out["arguments"] = [self.argument(name, node, v, whole) for name, (node, v, whole) in arguments.items()]
        if dynamic:
            out["dynamic"] = True
        return out

    def argument(self, name, node, v, whole):
        out = {"name": name, "expression": self.text(node)}
        if v.reads:
            out["reads"] = self.names(v.reads)
        control = v.ctl & ~v.reads
        if control:
            out["control"] = self.names(control)
        if v.files:
            self.files(v.files, out)
        if v.flags & DYNAMIC:
            out["dynamic_files"] = True
        if v.flags & UNTRACKED:
            out["untracked"] = True
        if whole:
            out["variable"] = node.id
        return out

    def text(self, node):
        """The node's source, at most 200 bytes, cut at a character."""
        if self.lines is None:
            self.lines = self.source.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8").split(b"\n")
        first, last = node.lineno - 1, node.end_lineno - 1
        if first == last:
            return self.lines[first][node.col_offset:node.end_col_offset][:MAX_EXPRESSION].decode("utf-8", "ignore")
        lines = self.lines[first:last + 1]
        if not lines:
            return ""
        lines = list(lines)
        lines[-1] = lines[-1][:node.end_col_offset]
        lines[0] = lines[0][node.col_offset:]
        return b"\n".join(lines)[:MAX_EXPRESSION].decode("utf-8", "ignore")

    def calls_in_bodies(self, seen):
        """Primitive calls written inside function bodies: they run, if ever, when those are called."""
        known = {id(entry[1]) for entry in seen.values()}
        out = []
        for n in self.scan.calls:
            if id(n) not in known:
                entry = {"primitive": n.func.id, "line": n.lineno, "column": n.col_offset,
                         "end_line": n.end_lineno, "end_column": n.end_col_offset, "dynamic": True}
                if n.func.id == "bind" and n.args and type(n.args[0]) is ast.Constant and type(n.args[0].value) is str:
                    entry["template"] = n.args[0].value
                out.append(entry)
        return out

    def give_up(self, s, reason, out):
        """The statement is reported by its syntax alone: everything it mentions, and untracked."""
        m = self.machine
        reads, stores = set(), set()
        stack = [s]
        while stack:
            n = stack.pop()
            if type(n) is ast.Name:
                (reads if type(n.ctx) is ast.Load else stores).add(n.id)
            elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                stores.add(n.name)
            elif isinstance(n, (ast.Import, ast.ImportFrom)):
                stores.update(a.asname or a.name.split(".")[0] for a in n.names)
            elif isinstance(n, (ast.Global, ast.Nonlocal)):
                stores.update(n.names)
            stack += ast.iter_child_nodes(n)
        data = [n for n in m.base if m.base[n].kind not in LIBRARY or m.base[n].own]
        put(out, "reads", [n for n in data if n in reads])
        put(out, "maybe_writes", stores)
        put(out, "mutates", data)
        out["untracked"] = [reason]
        out["dynamic_files"] = out["dynamic_writes"] = True
        put(out, "taints", m.taints)
        m.calls = {}
        calls = self.calls_in_bodies({})
        if calls:
            out["calls"] = calls
        if stores:
            out["definitions"] = dict.fromkeys(sorted(stores), LOST)
        for name in stores:
            m.keep(name, self.coder.decode(LOST))
        self.find_lost(stores)


DECORATED = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete, ast.Assert, ast.Raise, ast.Pass, ast.Import)


def binds_early(s):
    """Whether a statement may bind names and still raise: not if it binds one target at its very end."""
    t = s.__class__
    if t is ast.Assign:
        return len(s.targets) > 1 or s.targets[0].__class__ is not ast.Name and not named(s.targets[0])
    return t not in _SIMPLE or t is ast.Import and len(s.names) > 1


def named(target):
    if type(target) in (ast.Tuple, ast.List):
        return all(named(t) for t in target.elts)
    return type(target) is ast.Name or type(target) is ast.Starred and named(target.value)


# The state of a name of which nothing is known, not even what it shares.
LOST_KIND = "?"
LOST = {"k": LOST_KIND, "f": [None]}


_NO_HEAP = Heap()


def place(call):
    return call["line"], call["column"]


def clean(v):
    """v without origins, as the next statement finds it."""
    return new_value(v.kind, v.own, v.holds, v.code, 0, 0, 0, v.flags & UNTRACKED, v.const, v.items, None, v.lib)


def put(out, key, names):
    if names:
        out[key] = sorted(names)


def limits(seconds, memory):
    """Bounds what a request may use: processor seconds from now on, memory for good."""
    try:
        import resource
    except ImportError:
        return
    used = int(time.process_time()) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = used + seconds + 1
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    if memory:
        # A compiled pass recurses on the processor's stack. What Python's own limit lets through takes 30 MiB of it.
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (STACK if hard == resource.RLIM_INFINITY else min(STACK, hard), hard))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def main(seconds, memory, interpreted):
    """Serves requests. The answer to the first one says too why the pass is interpreted, if it is."""
    warnings.simplefilter("ignore")
    limits(seconds, memory)
    gc.collect()
    gc.freeze()
    gc.disable()
    read, write = sys.stdin.buffer, sys.stdout.buffer
    count, first = 0, {"interpreted": interpreted}
    while True:
        header = read.read(4)
        if len(header) < 4:
            return
        request = json.loads(read.read(struct.unpack(">I", header)[0]))
        kept = []
        try:
            answer = analyze(request["source"], request.get("state") or {}, kept)
        except MemoryError:
            answer = {"statements": None, "error": "MemoryError: the cell is too complex to analyse"}
        except RecursionError:
            answer = {"statements": None, "error": "RecursionError: the cell is nested too deeply"}
        if count == 0:
            answer.update(first)
        body = marshal.dumps(answer, 2)
        write.write(struct.pack(">I", len(body)) + body)
        write.flush()
        # To free the tree and the values takes a tenth of the pass: nobody waits for it here.
        del request, answer, body, kept
        limits(seconds, 0)
        count += 1
        if count % 64 == 0:
            forget()
            gc.collect()
