// Package chaos is a test bed: the whole cluster on one machine, each part a process of its own behind links that
// can be cut, and a seeded schedule of faults. `make chaos` runs it for a given time; a short run is part of the tests.
//
// What it asserts once the faults have stopped and the run has ended: the ledger balances and says what the
// trainer has; every group was delivered once; no recorded token was sampled again; the rate came back; nothing
// is left of processes, sessions, mounts, control groups, descriptors and files.
package chaos
