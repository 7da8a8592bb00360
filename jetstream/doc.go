// Package jetstream is the one adapter to NATS JetStream: work queues, append-only logs, leases
// and small state. Everything else in the project speaks to it through interfaces of its own.
//
// Subjects are verigraph.RUN.STAGE.KEY, one message per group. The streams:
//
//	BACKLOG       work queue, one message per prompt          leader takes
//	PROMPTS       work queue, one message per admitted group  workers take
//	TRAJECTORIES  work queue, one message per finished group  reward servers take
//	SCORED        work queue, one message per scored group    leader takes
//	REFERENCES    last value per prompt; only the reward side may read it
//	LEDGER        log of admissions and closings
//	BATCHES       log of batch records; appended with the expected last sequence
//	SET_ASIDE     groups that a person has to look at
//	JOURNAL       log per rollout of what its policy answered and its cells came to, until its group is durable
//
// Invariant: a message leaves its stage only after the next stage holds the result durably, so a
// crash repeats work and never loses it. Repeats are recognised by dispatch id in our own record
// (LEDGER, BATCHES), not by the broker's de-duplication window.
package jetstream
