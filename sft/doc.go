// Package sft distils an SFT corpus from stored trajectories: what a record, a sample and a
// configuration are, which records are taken, and which samples they give.
//
// Invariants:
//
//   - A turn is trained on exactly the context that the policy saw: the messages of a sample are those of
//     the stored trajectory, and where its context was compressed every trained turn has a sample of its own.
//   - Observations, questions and system prompts are never trained. No sample is without a trained turn.
//   - Every record that is not taken is counted once, by the first reason in the order of Reasons.
//
// Packages below: source reads, near finds near-duplicates, scan looks for what must not be trained on, tokens
// renders to ids, output writes, build runs a whole build, card and check look at the finished files.
package sft
