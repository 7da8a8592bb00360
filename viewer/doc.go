// Package viewer shows an output directory in a browser: the run, its rollouts, their turns, tokens and
// evidence, and the comparison of two runs. The page is embedded in the binary and asks for nothing else.
//
// Invariants: nothing is ever written; memory grows with the number of rollouts and not with their size,
// since the index holds numbers and offsets and a trajectory is read when it is opened; a damaged file costs
// itself and is named, the rest of the run is shown; what a model wrote leaves as JSON strings and becomes
// text nodes, never markup.
package viewer
