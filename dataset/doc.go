// Package dataset brings prompts in (importers) and turns scored groups into training rows.
//
// Invariants. A reference answer never enters a Prompt. A rollout without a reward never becomes a
// trained row. Every row satisfies the token invariants of trajectory.Segment, holds no NaN and fits
// the trainer's length limits, so that a batch that was written can be padded without a surprise.
//
// The package does no Parquet and no gRPC: dataset/parquet and dataset/feed do.
package dataset
