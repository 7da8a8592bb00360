// Package evidence keeps the evidence DAG of one trajectory: which raw files and which code every
// claim of its answer comes from. It does no I/O and knows neither Python nor the policy.
//
// # Invariants
//
//   - The graph decides. What a session says is a request, checked here; a claim object in the
//     session is a handle whose only meaning is its id in this graph.
//   - Acyclic by construction. An edge is added only together with the node it ends in, and only
//     from nodes that existed before; a re-assignment is a new version of a name. So creation
//     order is a topological order, and Export lists nodes in it.
//   - Over-approximate, then say so. A statement's writes depend on everything that the static
//     pass says it reads. What cannot be decided is untracked, and an untracked node never grounds.
//   - Control edges, edges that only say "may survive", and claims are no grounds: a node is
//     grounded if it is a source, or if it is neither untracked nor tainted and a compute or ground
//     edge comes from a grounded node.
//   - A taint stays. Every node made by the tainting statement or later is marked, until the
//     session is replaced by a fresh one.
//   - Everything that reward, replay and viewers see is in Export, and every function on Export is
//     pure, so a stored trajectory can be scored again.
//
// # Life of a cell
//
//	Begin(turn, code, analysis) -> Cell
//	  statement 0: Bind/Infer/Submit/Taint ... Completed(report 0)
//	  statement 1: Bind ...                    (raises: no report)
//	End("exception")
//
// A request made while statement i runs sees the versions that existed before i. A completed
// statement moves the names on. Of a statement that raised, what it may have rebound half-way counts
// as made from what the statement reads and no longer as what it was before, what it may have changed
// in place counts as changed, and the rest stays.
//
// # Grounding parts
//
// S (structural) of a submitted claim holds if for every atomic claim among it and its ancestors
// each bound number is grounded or stands in the question, at least one placeholder is so, the
// claim is not tainted, and every derived one has premises. Numbers, dates and lists always count
// as bound numbers, any other value does when its rendered text holds a number; other strings and
// booleans may be constants. A flag that a replay left (see ApplyReplay) denies S to its claim and to
// all that is derived from it. N (lexical) holds if neither the claim nor any claim it rests on
// states a number of its own (see NewNumbers). R (replayed) is what ApplyReplay makes of a replay's
// results, J (supported) what ApplyVerdicts makes of a judge's.
//
// A Graph and its Cells are used by one goroutine at a time.
package evidence
