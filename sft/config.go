package sft

import (
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/trajectory"
)

// Config says what a corpus is made of. The same inputs, configuration and seed give the same bytes.
type Config struct {
	// Seed decides quotas and the split.
	Seed int64 `yaml:"seed" json:"seed"`
	// Licences go by data source; what a record states itself wins.
	Licences map[string]string `yaml:"licences" json:"licences"`
	Select   Select            `yaml:"select" json:"select"`
	// FailedCells is context, train or reject.
	FailedCells FailedCells `yaml:"failed_cells" json:"failed_cells"`
	Target      Target      `yaml:"target" json:"target"`
	Stage1      Stage1      `yaml:"stage1" json:"stage1"`
	Stage2      Stage2      `yaml:"stage2" json:"stage2"`
	// NearDuplicates are records whose assistant texts are alike.
	NearDuplicates NearDuplicates `yaml:"near_duplicates" json:"near_duplicates"`
	// Decontaminate names benchmarks that must not be trained on.
	Decontaminate []Benchmark `yaml:"decontaminate" json:"decontaminate"`
	Scan          Scan        `yaml:"scan" json:"scan"`
	Outputs       Outputs     `yaml:"outputs" json:"outputs"`
	// Validation is the share of prompt-and-table components that go to the validation split.
	Validation float64 `yaml:"validation" json:"validation"`
	// Chunk is the number of records of one part file, and of what a killed build does again at most.
	Chunk int `yaml:"chunk" json:"chunk"`
}

// Select are the predicates on stored evidence; see Reasons for their order. A pointer that is null is off.
type Select struct {
	// Unverified takes finished samples of a foreign corpus, which have no evidence to check.
	Unverified bool `yaml:"unverified" json:"unverified"`
	// Unlicensed takes records without a licence.
	Unlicensed   bool                     `yaml:"unlicensed" json:"unlicensed"`
	Terminations []trajectory.Termination `yaml:"terminations" json:"terminations"`
	// MinAccuracy is on the rule's verdict on the whole answer (1 or 0), else on the outcome term.
	MinAccuracy *float64 `yaml:"min_accuracy" json:"min_accuracy"`
	MinReward   *float64 `yaml:"min_reward" json:"min_reward"`
	MinProcess  *float64 `yaml:"min_process" json:"min_process"`
	MinInfer    *float64 `yaml:"min_infer" json:"min_infer"`
	MinOutcome  *float64 `yaml:"min_outcome" json:"min_outcome"`
	// The grounding parts are shares over the submitted claims; a part that did not run does not hold.
	MinStructural *float64 `yaml:"min_structural" json:"min_structural"`
	MinReplayed   *float64 `yaml:"min_replayed" json:"min_replayed"`
	MinLexical    *float64 `yaml:"min_lexical" json:"min_lexical"`
	// MaxNotEntailed bounds the derive edges that a judge called not entailed.
	MaxNotEntailed *int `yaml:"max_not_entailed" json:"max_not_entailed"`
	MinTurns       int  `yaml:"min_turns" json:"min_turns"`
	// MaxTurns, MaxFailedCells and MaxCharacters are off at 0, 0 cells meaning none with MaxFailedCells: 0.
	MaxTurns       int      `yaml:"max_turns" json:"max_turns"`
	MaxFailedCells *int     `yaml:"max_failed_cells" json:"max_failed_cells"`
	MaxCharacters  int      `yaml:"max_characters" json:"max_characters"`
	Flags          []string `yaml:"flags" json:"flags"`
	// Languages of the assistant's text, as ISO 639-1 codes; empty takes all.
	Languages []string `yaml:"languages" json:"languages"`
	// PerPrompt keeps at most so many records of one prompt, 0 all; Prefer is best or diverse.
	PerPrompt int    `yaml:"per_prompt" json:"per_prompt"`
	Prefer    Prefer `yaml:"prefer" json:"prefer"`
}

// Prefer says which records of one prompt are kept.
type Prefer string

// The ones with the highest reward, or, after the best one, those least like the ones kept before.
const (
	PreferBest    Prefer = "best"
	PreferDiverse Prefer = "diverse"
)

// Target is the model that is trained.
type Target struct {
	// Tokenizer is a directory or file with tokenizer.json; without one nothing is counted in tokens.
	Tokenizer string `yaml:"tokenizer" json:"tokenizer"`
	// MaxTokens bounds a sample: trailing turns that do not fit are cut off, and a sample whose first
	// trained turn does not fit is dropped. 0 is no bound.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens"`
	// Stop is where generation stops in the target run, and TrainEndOfTurn whether the end-of-turn token
	// is trained: always where generation stops there.
	Stop           rollout.StopMode `yaml:"stop" json:"stop"`
	TrainEndOfTurn bool             `yaml:"train_end_of_turn" json:"train_end_of_turn"`
	// Rendering is rollout or text; see Rendering.
	Rendering Rendering `yaml:"rendering" json:"rendering"`
	// Thinking false renders every assistant header with an empty block of reasoning, never trained.
	Thinking bool `yaml:"thinking" json:"thinking"`
}

// Rendering is how messages become ids in the tokenized output and in counts.
type Rendering string

// As rollouts do it: stored ids where there are some, and text of users, tools and system prompts as
// ordinary characters. Or as trainers do with the text of the message files: added tokens matched.
const (
	RenderRollout Rendering = "rollout"
	RenderText    Rendering = "text"
)

// Stage1 bounds each kind of atomic sample: -1 takes all, 0 none.
type Stage1 struct {
	Enabled   bool `yaml:"enabled" json:"enabled"`
	Planning  int  `yaml:"planning" json:"planning"`
	Bind      int  `yaml:"bind" json:"bind"`
	Infer     int  `yaml:"infer" json:"infer"`
	Submit    int  `yaml:"submit_answer" json:"submit_answer"`
	Synthesis int  `yaml:"synthesis" json:"synthesis"`
}

// Quota of a kind; kinds of stage 2 have none.
func (s Stage1) Quota(k Kind) int {
	switch k {
	case Planning:
		return s.Planning
	case Bind:
		return s.Bind
	case Infer:
		return s.Infer
	case Submit:
		return s.Submit
	case Synthesis:
		return s.Synthesis
	}
	return -1
}

// Stage2 are whole trajectories.
type Stage2 struct {
	Enabled bool `yaml:"enabled" json:"enabled"`
}

// NearDuplicates compares records by MinHash over word shingles of their assistant texts.
type NearDuplicates struct {
	// Threshold is the estimated Jaccard similarity from which the worse record is left out; 0 is off.
	Threshold float64 `yaml:"threshold" json:"threshold"`
	// Shingle is the number of words of a shingle.
	Shingle int `yaml:"shingle" json:"shingle"`
}

// Benchmark is a set of prompts with its answers and data files, as verigraph import reads it.
type Benchmark struct {
	Name    string `yaml:"name" json:"name"`
	Prompts string `yaml:"prompts" json:"prompts"`
	Format  string `yaml:"format" json:"format"`
	Labels  string `yaml:"labels" json:"labels"`
	DataDir string `yaml:"data_dir" json:"data_dir"`
	// Match names what counts as contamination: questions, answers, tables.
	Match []string `yaml:"match" json:"match"`
}

// Scan says what a finding does: reject or count.
type Scan struct {
	Secrets  string `yaml:"secrets" json:"secrets"`
	Personal string `yaml:"personal" json:"personal"`
}

// Outputs are the file families of a build.
type Outputs struct {
	Swift bool `yaml:"swift" json:"swift"`
	Verl  bool `yaml:"verl" json:"verl"`
	Chat  bool `yaml:"chat" json:"chat"`
	// Tokenized needs target.tokenizer.
	Tokenized bool `yaml:"tokenized" json:"tokenized"`
}

// Actions of a scan.
const (
	ActReject = "reject"
	ActCount  = "count"
)

// Matches of a benchmark.
const (
	MatchQuestions = "questions"
	MatchAnswers   = "answers"
	MatchTables    = "tables"
)

// Defaults take submitted trajectories with a reward and make both stages of all of them.
func Defaults() Config {
	return Config{
		Seed: 1, Select: Select{Terminations: []trajectory.Termination{trajectory.Submitted}, MinTurns: 1, Flags: []string{"tainted:"}, Prefer: PreferBest},
		FailedCells: FailedContext,
		Target:      Target{Stop: rollout.StopAtEndOfTurn, TrainEndOfTurn: true, Rendering: RenderRollout, Thinking: true},
		Stage1:      Stage1{Enabled: true, Planning: -1, Bind: -1, Infer: -1, Submit: -1, Synthesis: -1},
		Stage2:      Stage2{Enabled: true}, NearDuplicates: NearDuplicates{Threshold: 0.8, Shingle: 5},
		Scan:    Scan{Secrets: ActReject, Personal: ActReject},
		Outputs: Outputs{Swift: true, Verl: true, Chat: true}, Validation: 0.02, Chunk: 500,
	}
}
