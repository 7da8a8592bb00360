package dataset

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/verigraph/verigraph/trajectory"
)

// OverlongOwner says who applies DAPO's soft punishment of long responses. Exactly one side may.
type OverlongOwner string

// Owners of overlong shaping.
const (
	OverlongReward  OverlongOwner = "reward"  // it is in the reward column already
	OverlongTrainer OverlongOwner = "trainer" // the trainer applies it
	OverlongNone    OverlongOwner = "none"
)

// Meta is what holds for every row of a batch. It is comparable: groups go into one batch only if
// their Meta is equal.
type Meta struct {
	Run                string
	Model              string
	TokenizerSHA256    string
	ChatTemplateSHA256 string
	PadTokenID         int32
	Sampling           trajectory.Sampling
	RewardPreset       string
	RewardHash         string
	// PromptLength and ResponseLength are the trainer's limits in tokens; 0 means unlimited.
	PromptLength   int
	ResponseLength int
	OverlongOwner  OverlongOwner
}

// Limits are the trainer's lengths in tokens; 0 means unlimited.
type Limits struct {
	PromptLength   int
	ResponseLength int
}

// MetaOf is the Meta of a group. Preset and hash come from its first rewarded member.
func MetaOf(g trajectory.ScoredGroup, limits Limits, owner OverlongOwner) Meta {
	m := Meta{
		Run: g.Group.Dispatch.Run, Model: g.Group.Model, TokenizerSHA256: g.Group.TokenizerSHA256,
		ChatTemplateSHA256: g.Group.ChatTemplateSHA256, PadTokenID: g.Group.PadTokenID, Sampling: g.Group.Sampling,
		PromptLength: limits.PromptLength, ResponseLength: limits.ResponseLength, OverlongOwner: owner,
	}
	for _, s := range g.Scores {
		if s.Status == trajectory.ScoreOK {
			m.RewardPreset, m.RewardHash = s.Preset, s.PresetHash
			break
		}
	}
	return m
}

// Validate reports every unusable field.
func (m Meta) Validate() error {
	var errs []error
	switch m.OverlongOwner {
	case OverlongReward, OverlongTrainer, OverlongNone:
	default:
		errs = append(errs, fmt.Errorf("overlong_owner: %q is not one of reward, trainer, none", m.OverlongOwner))
	}
	if m.PadTokenID < 0 {
		errs = append(errs, fmt.Errorf("pad_token_id: %d is negative", m.PadTokenID))
	}
	if m.PromptLength < 0 || m.ResponseLength < 0 {
		errs = append(errs, errors.New("prompt_length, response_length: negative"))
	}
	if m.Run == "" {
		errs = append(errs, errors.New("run: empty"))
	}
	return errors.Join(errs...)
}

// KeyValue is one entry of the file metadata.
type KeyValue struct{ Key, Value string }

// KeyValues is the file metadata, in a fixed order, all values as text.
func (m Meta) KeyValues() []KeyValue {
	return []KeyValue{
		{"schema_version", strconv.Itoa(SchemaVersion)},
		{"run", clean(m.Run)},
		{"model", clean(m.Model)},
		{"tokenizer_sha256", m.TokenizerSHA256},
		{"chat_template_sha256", m.ChatTemplateSHA256},
		{"pad_token_id", strconv.FormatInt(int64(m.PadTokenID), 10)},
		{"temperature", number(m.Sampling.Temperature)},
		{"top_p", number(m.Sampling.TopP)},
		{"top_k", strconv.Itoa(m.Sampling.TopK)},
		{"min_p", number(m.Sampling.MinP)},
		{"repetition_penalty", number(m.Sampling.RepetitionPenalty)},
		{"max_tokens", strconv.Itoa(m.Sampling.MaxTokens)},
		{"reward_preset", clean(m.RewardPreset)},
		{"reward_hash", m.RewardHash},
		{"prompt_length", strconv.Itoa(m.PromptLength)},
		{"response_length", strconv.Itoa(m.ResponseLength)},
		{"overlong_owner", string(m.OverlongOwner)},
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// ParseMeta reads file metadata back. It refuses another schema version and missing keys.
func ParseMeta(get func(key string) (string, bool)) (Meta, error) {
	r := metaReader{get: get}
	if v := r.integer("schema_version"); r.err == nil && v != SchemaVersion {
		return Meta{}, fmt.Errorf("metadata: schema_version %d, want %d", v, SchemaVersion)
	}
	m := Meta{
		Run: r.text("run"), Model: r.text("model"), TokenizerSHA256: r.text("tokenizer_sha256"),
		ChatTemplateSHA256: r.text("chat_template_sha256"), PadTokenID: int32(r.integer("pad_token_id")),
		Sampling: trajectory.Sampling{
			Temperature: r.float("temperature"), TopP: r.float("top_p"), TopK: r.integer("top_k"),
			MinP: r.float("min_p"), RepetitionPenalty: r.float("repetition_penalty"),
		},
		RewardPreset: r.text("reward_preset"), RewardHash: r.text("reward_hash"),
		PromptLength: r.integer("prompt_length"), ResponseLength: r.integer("response_length"),
		OverlongOwner: OverlongOwner(r.text("overlong_owner")),
	}
	if _, ok := get("max_tokens"); ok { // files of early runs do not state it
		m.Sampling.MaxTokens = r.integer("max_tokens")
	}
	return m, r.err
}

// metaReader joins what is wrong with the metadata.
type metaReader struct {
	get func(string) (string, bool)
	err error
}

func (r *metaReader) text(key string) string {
	v, ok := r.get(key)
	if !ok {
		r.err = errors.Join(r.err, fmt.Errorf("metadata: no %s", key))
	}
	return v
}

func (r *metaReader) integer(key string) int {
	n, err := strconv.Atoi(r.text(key))
	r.note(key, err)
	return n
}

func (r *metaReader) float(key string) float64 {
	v, err := strconv.ParseFloat(r.text(key), 64)
	r.note(key, err)
	return v
}

func (r *metaReader) note(key string, err error) {
	if _, ok := r.get(key); ok && err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("metadata: %s: %w", key, err))
	}
}
