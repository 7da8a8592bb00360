package sandbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/verigraph/verigraph/trajectory"
)

// forge finds the runner's own objects, as a cell can, and speaks on the control descriptor.
const forge = `import gc, json, os, time
gc.get_objects()
chan = bind.__closure__[0].cell_contents.ask.__self__.channel
def put(**body):
    b = json.dumps({'nonce': body.pop('nonce', chan.nonce), **body}).encode()
    os.write(3, len(b).to_bytes(4, 'big') + b)
def ok(n): return {'status': 'ok', 'statements': n, 'completed': n, 'traceback': '', 'exception': '', 'environment': []}
None`

// breaks is a cell that says something on the control descriptor which ends its session.
func breaks(rule, code string) hostile {
	return hostile{rule: rule, off: "frames", code: forge + "\n# then\n" + code + "\ntime.sleep(30)", status: trajectory.CellDied, says: "said something on its control channel", own: true}
}

// cuts is breaks for what can't be passed over: nobody knows where the next frame begins. Its twin says nothing.
func cuts(rule, code string) hostile {
	h := breaks(rule, code)
	h.off, h.twin = "", "None"
	return h
}

// noRequests asserts that nothing reached the graph.
func noRequests(_ *testing.T, _ *field, _ Session, g *graph) string {
	if len(g.binds)+len(g.infers)+len(g.submits) > 0 {
		return fmt.Sprint("the graph was asked: ", g.binds, g.infers, g.submits)
	}
	return ""
}

var protocol = []hostile{
	{rule: "a forged reply on descriptor 1 is output", twin: `import os; os.write(3, b'{"status":"ok","stdout":"42"}\n'); import time; time.sleep(30)`, code: `import os; os.write(1, b'{"status":"ok","stdout":"42"}\n'); os._exit(0)`, status: trajectory.CellDied, says: `"stdout":"42"`, own: true},
	{rule: "a forged frame on descriptor 1 is output", twin: "import os; os.write(3, b'\x00\x00\x00\x02{}')\nNone", code: "import os; os.write(1, b'\\x00\\x00\\x00\\x02{}')\nNone", says: `\{\}`},
	breaks("a frame needs a nonce", "put(nonce='', done=ok(1))"),
	breaks("a frame needs the nonce of its cell", "put(nonce='0' * 32, done=ok(1))"),
	breaks("a frame has one body", "put(done=ok(1), ready={'version': ''})"),
	breaks("a frame has a body that a cell sends", "put(ready={'version': '3'})"),
	breaks("a session does not say that it could not start", "put(failed={'error': 'retry me'})"),
	breaks("a frame has no unknown fields", "put(done=dict(ok(0), score=1))"),
	breaks("a key has one spelling", "put(dOne=ok(0))"),
	breaks("a key stands once in its object", "d = json.dumps({'nonce': chan.nonce, 'done': ok(0)}).encode(); b = d[:-1] + b', ' + d[1:]\nos.write(3, len(b).to_bytes(4, 'big') + b)"),
	breaks("a session does not judge its own limits", "put(done=dict(ok(0), status='timeout'))"),
	breaks("a session does not say that it lost its memory", "put(done=dict(ok(0), status='out_of_memory'))"),
	breaks("an end fits the statements that were reported", "put(done=ok(7))"),
	breaks("a good end has no exception", "put(done=dict(ok(0), exception='KeyError'))"),
	breaks("statements complete in order", "put(completed={'index': 5, 'bound': [], 'unbound': [], 'opened': []})"),
	breaks("a statement completes once", "put(completed={'index': 0, 'bound': [], 'unbound': [], 'opened': []})\n1"),
	breaks("a request belongs to the statement that runs", "put(bind={'statement': 3, 'line': 1, 'template': '{x}', 'fields': [], 'values': []})"),
	breaks("an inference belongs to the statement that runs", "put(infer={'statement': 4, 'premises': ['c1'], 'conclusion': 'x', 'reasoning': 'y'})"),
	breaks("a submission belongs to the statement that runs", "put(submit={'statement': 2, 'claims': ['c1']})"),
	breaks("a taint is of a statement that has run", "put(taint={'statement': 9, 'construct': 'gc'})"),
	breaks("taints do not flood the host", "for i in range(1100): put(taint={'statement': 0, 'construct': str(i)})"),
	breaks("names are not endless", "put(taint={'statement': 0, 'construct': 'x' * 5000})"),
	breaks("values have a known kind", "put(bind={'statement': 0, 'line': 1, 'template': '', 'fields': [], 'values': [{'name': 'x', 'kind': 'proof', 'type': 'int', 'repr': '1'}]})"),
	cuts("a huge frame is refused by its length", "os.write(3, b'\\xff\\xff\\xff\\xff')"),
	cuts("an empty frame is refused", "os.write(3, bytes(4))"),
	breaks("a frame is JSON", "os.write(3, b'\\0\\0\\0\\2xx')"),
	breaks("a frame is UTF-8", "os.write(3, b'\\0\\0\\0\\3\"\\xff\"')"),
	breaks("a frame is not nested without end", "b = b'[' * 200_000\nos.write(3, len(b).to_bytes(4, 'big') + b)"),
	breaks("a frame's numbers are whole", "put(completed={'index': 0.5, 'bound': [], 'unbound': [], 'opened': []})"),
	cuts("a half frame swallows what follows and ends there", "os.write(3, b'\\0\\0\\0\\x40{\"nonce\"')\n1"),
	{rule: "the nonce of an earlier cell is worth nothing", off: "nonce", code: forge + "\nstolen = chan.nonce\n# then\nput(nonce=stolen, done=ok(0))\ntime.sleep(30)", status: trajectory.CellDied, says: "said something on its control channel", own: true},
	{rule: "a forged end is the session's own report, and its next words end it", off: "frames", code: forge + "\n# then\nput(done=ok(0))\nx = 1\n# then\n1", status: trajectory.CellDied, own: true, host: noRequests},
	{rule: "frames between cells end the session", off: "frames", code: forge + "\ns = bind.__closure__[0].cell_contents.ask.__self__\nend = s.end\ndef more(result): end(result); put(done=ok(0))\ns.end = more\n# then\n1\n# then\n1", status: trajectory.CellDied, says: "control channel", own: true},
	{rule: "a reply that was not asked for is not there", twin: "import os, select\nr, w = os.pipe(); os.write(w, b'x')\nselect.select([r], [], [], 0.2)[0]", code: "import os, select\nselect.select([3], [], [], 0.2)[0]", says: `^\[\]\n$`},
	{rule: "a reader that steals the replies stalls itself only", off: "time", code: "import threading, os\nthreading.Thread(target=os.read, args=(3, 1 << 20), daemon=True).start()\nwhile True: bind('{x}', x=1)", status: trajectory.CellTimeout, own: true, times: quick},
	{rule: "a closed control descriptor ends the session", twin: "None", code: "import os; os.close(3)\nimport time; time.sleep(30)", status: trajectory.CellDied, own: true},
	{rule: "a replaced control descriptor ends the session", twin: "import os; os.dup2(3, 3); None", code: "import os; os.dup2(1, 3)", status: trajectory.CellDied, own: true},
	{rule: "closed output descriptors lose output and nothing else", off: "descriptors", code: "import os; os.close(1); os.close(2); os.close(0)\n# then\n1 + 1", own: true},
	{rule: "input is at its end", twin: "import os\nr, w = os.pipe(); os.write(w, b'x'); [os.read(r, 10)]", code: "import sys, os\n[sys.stdin.read(), os.read(0, 10)]", says: `^\['', b''\]`},
	{rule: "a numeric value that JSON has not is a text", off: "texts", code: "bind('{x}', x=float('nan')); bind('{x}', x=float('-inf')); None", host: func(_ *testing.T, _ *field, _ Session, g *graph) string {
		return differ("nan -inf", g.binds[0].Values[0].Repr+" "+g.binds[1].Fields[0].Text)
	}},
}

// quick gives a cell little time.
func quick(l *Limits) { l.CellWall, l.Grace = 400*time.Millisecond, 200*time.Millisecond }
