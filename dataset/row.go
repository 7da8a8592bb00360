package dataset

import "github.com/verigraph/verigraph/trajectory"

// SchemaVersion is the version of Row and Meta, stated in every file.
const SchemaVersion = 1

// Row is one training row: one segment of one rollout. The tags fix the Parquet schema, column names
// and types; dataset/parquet reads them. All rows of a group stand together, in sample order.
type Row struct {
	// RowIdx counts the rows of a group without gaps from a start that the caller of Rows chose: the
	// position in the requested batch, or in the order of dispatch.
	RowIdx int32 `parquet:"row_idx"`
	// UID is the group: the dispatch id, which holds no underscore (verl splits keys at it).
	UID string `parquet:"uid"`
	// SessionID is the sample within the group, OutputIdx the segment within the rollout.
	SessionID int32 `parquet:"session_id"`
	OutputIdx int32 `parquet:"output_idx"`
	// RolloutID is run/dispatch/sample.
	RolloutID string `parquet:"rollout_id"`
	// Attempt counts the tries of this rollout, from 0: earlier ones ended for reasons of ours.
	Attempt int32 `parquet:"attempt"`
	// TraceID is the OpenTelemetry trace of the prompt, 32 hexadecimal digits; null where it was not traced.
	TraceID *string `parquet:"trace_id,optional"`
	// DataSource and PromptID are the prompt's own (verl: data_source and extra_info.index).
	DataSource string `parquet:"data_source"`
	PromptID   string `parquet:"prompt_id"`
	// Validate marks rollouts of validation prompts, which stand in batches of their own.
	Validate bool `parquet:"validate"`

	// PromptIDs and ResponseIDs are the engine's exact ids, unpadded.
	PromptIDs   []int32 `parquet:"prompt_ids,list"`
	ResponseIDs []int32 `parquet:"response_ids,list"`
	// ResponseMask is 1 on sampled ids and 0 on template and observation ids; the last is 1, unless
	// LossValid is false: then all are 0.
	ResponseMask []int8 `parquet:"response_mask,list"`
	// RolloutLogProbs are natural logarithms as the sampler had them, 0.0 where the mask is 0.
	RolloutLogProbs []float32 `parquet:"rollout_log_probs,list" parquet-element:",split"`
	// Spans cover ResponseIDs without gaps.
	Spans []Span `parquet:"spans,list"`

	// Reward is what to train on; every row of a rollout carries it. SeqFinalReward equals it, SeqReward
	// is before overlong shaping, Score before the clip, Acc the rule's verdict or the outcome term.
	Reward         float32 `parquet:"reward"`
	Score          float32 `parquet:"score"`
	Acc            float32 `parquet:"acc"`
	SeqReward      float32 `parquet:"seq_reward"`
	SeqFinalReward float32 `parquet:"seq_final_reward"`
	// OverlongReward is the length penalty, at most 0, where the reward side owns it.
	OverlongReward float32 `parquet:"overlong_reward"`
	// RProcess, RInfer, ROutcome and RPenalty are the terms before their weights.
	RProcess float32 `parquet:"r_process"`
	RInfer   float32 `parquet:"r_infer"`
	ROutcome float32 `parquet:"r_outcome"`
	RPenalty float32 `parquet:"r_penalty"`
	// TurnRewards place the parts of Score on turns.
	TurnRewards []float32 `parquet:"turn_rewards,list"`

	// GroundingStructural, GroundingReplayed, GroundingLexical and GroundingSupported are shares over the submitted claims; null where the part did not run on all of
	// them or nothing was submitted.
	GroundingStructural *float32 `parquet:"grounding_structural,optional"`
	GroundingReplayed   *float32 `parquet:"grounding_replayed,optional"`
	GroundingLexical    *float32 `parquet:"grounding_lexical,optional"`
	GroundingSupported  *float32 `parquet:"grounding_supported,optional"`

	// RewardStatus is ok, unscored, unjudgeable or lost; LossValid is true only with ok.
	RewardStatus string `parquet:"reward_status"`
	LossValid    bool   `parquet:"loss_valid"`
	// RoutedExperts is the engine's expert routing of a MoE model, opaque; null where not recorded.
	RoutedExperts *[]byte `parquet:"routed_experts,optional"`

	// NumTurns counts model generations; ToolCalls turns with code; ToolErrors those whose cell did not
	// succeed; NumPreempted the weight updates that interrupted a generation.
	NumTurns     int32 `parquet:"num_turns"`
	ToolCalls    int32 `parquet:"tool_calls"`
	ToolErrors   int32 `parquet:"tool_errors"`
	NumPreempted int32 `parquet:"num_preempted"`
	// PolicyVersionMin and PolicyVersionMax are over all sampled spans of the rollout.
	PolicyVersionMin int64 `parquet:"policy_version_min"`
	PolicyVersionMax int64 `parquet:"policy_version_max"`

	// TerminationReason is why the rollout ended (trajectory.Termination).
	TerminationReason string `parquet:"termination_reason"`
	// TGenerateS, TToolS and TScoreS are seconds in policy calls, in cells and in scoring.
	TGenerateS float32 `parquet:"t_generate_s"`
	TToolS     float32 `parquet:"t_tool_s"`
	TScoreS    float32 `parquet:"t_score_s"`

	// MessagesJSON and GraphJSON are for people and audits; a trainer leaves them unread.
	MessagesJSON string `parquet:"messages_json"`
	GraphJSON    string `parquet:"graph_json"`
}

// Span covers response ids [Start, End) of one origin. Kind is sampled, template or observation.
type Span struct {
	// Start and End are positions in response_ids, End excluded.
	Start int32 `parquet:"start"`
	End   int32 `parquet:"end"`
	// Kind is sampled, template or observation.
	Kind string `parquet:"kind"`
	// Turn is the generation that the span belongs to, from 0.
	Turn int32 `parquet:"turn"`
	// PolicyVersion and PolicyVersionEnd are the versions that began and ended the span; template and
	// observation spans have none.
	PolicyVersion    int64 `parquet:"policy_version"`
	PolicyVersionEnd int64 `parquet:"policy_version_end"`
}

func rowSpans(spans []trajectory.Span) []Span {
	rows := make([]Span, len(spans))
	for i, s := range spans {
		rows[i] = Span{
			Start: int32(s.Start), End: int32(s.End), Kind: string(s.Kind), Turn: int32(s.Turn),
			PolicyVersion: s.PolicyVersion, PolicyVersionEnd: s.PolicyVersionEnd,
		}
	}
	return rows
}
