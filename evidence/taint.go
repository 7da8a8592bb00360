package evidence

import "slices"

// Taint reports a denied construct that the session noticed while a statement ran.
func (c *Cell) Taint(statement int, construct string) {
	if c.ended {
		// A thread that outlives its cell is still the session's.
		c.taint(c.next, construct)
		return
	}
	c.enter()
	c.taint(max(0, min(statement, c.next)), construct)
}

// taint marks the session, and every node made since the statement began: the construct may have
// been at work before it was seen.
func (c *Cell) taint(statement int, construct string) {
	g := c.g
	g.tainted = true
	for i := len(g.nodes) - 1; i >= len(g.sources); i-- {
		n := &g.nodes[i]
		if n.Turn < c.turn || n.Turn == c.turn && n.Statement < statement {
			break
		}
		n.Tainted, g.grounded[i] = true, false
	}
	mark := TaintMark{Turn: c.turn, Statement: statement, Construct: short(construct)}
	if len(g.taints) < maxTaintMarks && !slices.Contains(g.taints, mark) {
		g.taints = append(g.taints, mark)
	}
	g.flag("tainted")
}
