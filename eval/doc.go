// Package eval measures stored rollouts as the papers do: one record per item and sample, and from the
// records alone the tables, intervals, tests and plots.
//
// Invariants: every imported item is accounted for in every table, answered or not; a rollout that was lost
// for our reasons, or that no judge gave a verdict on, is never a number - it is counted beside the figure,
// with the figure's bounds; the same records and seed give the same report to the last byte.
package eval
