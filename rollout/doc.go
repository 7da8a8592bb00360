// Package rollout runs the trajectories of a group against a policy endpoint and Python sessions.
//
// Invariants: every member of a group ends exactly once, with a reason of the closed set
// trajectory.Termination; token ids are only ever appended; nothing after the closing code tag is
// parsed, run or kept; infrastructure trouble ends a member with one of our reasons and never as
// something the policy did.
//
//	                 +--> generate --stop at tag--> cell --> observation --+
//	prompt ids ------|        |                       |                    |--> next turn
//	                 |        +--no code--> no_submission                  |
//	                 |        +--limit---> turn_truncated, max_tokens, context_full
//	                 +--------------------- submitted <-- cell             |
//	                                        max_turns <--------------------+
package rollout
