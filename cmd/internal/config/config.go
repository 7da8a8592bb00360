// Package config is the configuration of every process of the project: one struct, read strictly
// from YAML over its defaults, then overridden by flags. A process reads the sections that it uses.
package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/strictyaml"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/reward/openai"
	"github.com/verigraph/verigraph/reward/rpc"
	"github.com/verigraph/verigraph/reward/scorehook"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sandbox"
)

// Config holds all sections.
type Config struct {
	// Run names the run: 1 to 64 letters, digits or '-'.
	Run  string `yaml:"run"`
	NATS NATS   `yaml:"nats"`
	// Blob is the object store's URL or directory, shared by all processes of a run.
	Blob    string         `yaml:"blob"`
	Policy  Policy         `yaml:"policy"`
	Rollout rollout.Config `yaml:"rollout"`
	Sandbox sandbox.Config `yaml:"sandbox"`
	Worker  Worker         `yaml:"worker"`
	Reward  Reward         `yaml:"reward"`
	Leader  leader.Config  `yaml:"leader"`
	Trainer Trainer        `yaml:"trainer"`
	Feed    Feed           `yaml:"feed"`
	Admin   Admin          `yaml:"admin"`
	// Telemetry is what goes to collectors; metrics are scraped at admin.listen.
	Telemetry Telemetry `yaml:"telemetry"`
}

// NATS is the broker.
type NATS struct {
	// URL of an external server or cluster; empty means the embedded one (verigraph run only).
	URL string `yaml:"url"`
	// Credentials is a NATS credentials file.
	Credentials      string `yaml:"credentials"`
	jetstream.Config `yaml:",inline"`
}

// Policy is the policy endpoint and its tokenizer.
type Policy struct {
	policy.Config `yaml:",inline"`
	// API is completions (token ids in and out), or chat: text only, for teachers and baselines. What
	// chat gives is archived and scored, and never becomes a training row.
	API string `yaml:"api"`
	// Tokenizer is a directory or file with the model's tokenizer.json, or "server": it is rebuilt from
	// the server's /tokenize and /detokenize. Not read with chat.
	Tokenizer string `yaml:"tokenizer"`
	// Endpoints are more servers of the same policy, and how many calls each may hold.
	Endpoints pool.Config `yaml:"endpoints"`
}

// TokenizerServer is the value of policy.tokenizer that needs no file.
const TokenizerServer = "server"

// APIs of a policy endpoint.
const (
	APICompletions = "completions"
	APIChat        = "chat"
)

func (p Policy) validate() error {
	errs := []error{p.Endpoints.ValidateWith(p.Config)}
	switch p.API {
	case APICompletions:
		if p.Tokenizer == TokenizerServer && p.BaseURL == "" {
			errs = append(errs, errors.New("policy.tokenizer: server needs policy.base_url: the tokenizer is read when the worker starts"))
		}
		if p.Tokenizer == "" {
			errs = append(errs, errors.New("policy.tokenizer: a directory or file with the model's tokenizer.json is needed, or the word server"))
		}
	case APIChat:
		if p.BaseURL == "" {
			errs = append(errs, errors.New("policy.base_url: policy.api chat needs it"))
		}
		if len(p.Endpoints.URLs) > 0 || p.Endpoints.DNS {
			errs = append(errs, errors.New("policy.endpoints: policy.api chat calls base_url alone"))
		}
	default:
		errs = append(errs, fmt.Errorf("policy.api: %q, want %s or %s", p.API, APICompletions, APIChat))
	}
	return errors.Join(errs...)
}

// Worker bounds what one rollout worker runs at once.
type Worker struct {
	// Groups is the number of groups in work at a time; each runs group_size trajectories.
	Groups int `yaml:"groups"`
	// Cache is the directory for data files, which the workers of a host may share; empty takes a temporary one.
	Cache string `yaml:"cache"`
	// CacheBytes bounds it: what was not used for longest goes first, what is in use stays. 0 bounds nothing.
	CacheBytes int64 `yaml:"cache_bytes"`
	// Drain is how long groups in work may go on after SIGTERM before they are handed back.
	Drain time.Duration `yaml:"drain"`
}

// Reward is the reward server.
type Reward struct {
	// Preset is the name of a shipped preset or a file.
	Preset string `yaml:"preset"`
	// Judge is "rules" (no model) or "openai".
	Judge  string        `yaml:"judge"`
	OpenAI openai.Config `yaml:"openai"`
	// Judges are further LLM judges that vote with the first; what they leave out is as in openai.
	Judges []openai.Config `yaml:"judges"`
	// RolloutDeadline bounds all judging of one rollout; 0 means no bound of its own.
	RolloutDeadline time.Duration `yaml:"rollout_deadline"`
	// Canaries are the checks of an LLM judge beside its work.
	Canaries judges.GuardConfig `yaml:"canaries"`
	Verdicts Verdicts           `yaml:"verdicts"`
	// Scorers are custom outcome scorers by the name that meta.scorer of a reference gives.
	Scorers map[string]scorehook.Config `yaml:"scorers"`
	Service RewardService               `yaml:"service"`
	// Groups is the number of groups scored at a time.
	Groups int `yaml:"groups"`
	// Archive is a directory that keeps readable trajectories; empty keeps none.
	Archive string `yaml:"archive"`
}

// Verdicts is the cache of judges' verdicts.
type Verdicts struct {
	// Store is memory, nats, dir:PATH, or auto: dir:ARCHIVE/verdicts with an embedded broker, else nats.
	Store string `yaml:"store"`
	// Memory bounds the verdicts that one process holds.
	Memory int `yaml:"memory"`
	// Tenant keeps the verdicts of different owners apart.
	Tenant string `yaml:"tenant"`
	// Rejudge asks for every verdict anew and replaces what the store holds.
	Rejudge bool `yaml:"rejudge"`
}

// Stores of verdicts.
const (
	VerdictsAuto   = "auto"
	VerdictsMemory = "memory"
	VerdictsNATS   = "nats"
	VerdictsDir    = "dir:"
)

// RewardService is the gRPC service for trainers that generate their own rollouts.
type RewardService struct {
	// Listen is HOST:PORT; empty serves nothing.
	Listen string `yaml:"listen"`
	// TokenEnv names an environment variable with the bearer token that clients must send.
	TokenEnv string `yaml:"token_env"`
	// TLS serves encrypted; without it the service speaks in the clear.
	TLS TLS `yaml:"tls"`
}

// Options reads what the service needs from files and the environment.
func (s RewardService) Options() (rpc.Options, error) {
	opts := rpc.Defaults()
	if s.TokenEnv != "" {
		opts.Token = rpc.Token(os.Getenv(s.TokenEnv))
	}
	var err error
	opts.TLS, err = s.TLS.server("reward.service.tls")
	return opts, err
}

// Panel returns all LLM judges, the further ones completed by the first.
func (r Reward) Panel() []openai.Config {
	all := []openai.Config{r.OpenAI}
	for _, j := range r.Judges {
		all = append(all, j.Or(r.OpenAI))
	}
	return all
}

func (r Reward) validate() error {
	var errs []error
	switch r.Judge {
	case JudgeRules:
		if len(r.Judges) > 0 {
			errs = append(errs, errors.New("reward.judges: they need reward.judge: openai"))
		}
	case JudgeOpenAI:
		for _, j := range r.Panel() {
			errs = append(errs, j.Validate())
		}
		if n := len(r.Judges) + 1; n%2 == 0 {
			errs = append(errs, fmt.Errorf("reward.judges: %d judges in all can tie; a vote needs an odd number", n))
		}
		errs = append(errs, r.Canaries.Validate())
	default:
		errs = append(errs, fmt.Errorf("reward.judge: %q, want %s or %s", r.Judge, JudgeRules, JudgeOpenAI))
	}
	if r.RolloutDeadline < 0 {
		errs = append(errs, fmt.Errorf("reward.rollout_deadline: %s is negative", r.RolloutDeadline))
	}
	if s := r.Verdicts.Store; s != VerdictsAuto && s != VerdictsMemory && s != VerdictsNATS && !(strings.HasPrefix(s, VerdictsDir) && len(s) > len(VerdictsDir)) {
		errs = append(errs, fmt.Errorf("reward.verdicts.store: %q is none of auto, memory, nats, dir:PATH", s))
	}
	if r.Verdicts.Memory < 1 {
		errs = append(errs, fmt.Errorf("reward.verdicts.memory: %d, want at least 1", r.Verdicts.Memory))
	}
	for name, s := range r.Scorers {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("reward.scorers.%s: %w", name, err))
		}
	}
	if name := r.Service.TokenEnv; name != "" && os.Getenv(name) == "" {
		errs = append(errs, fmt.Errorf("reward.service.token_env: the environment variable %s is not set", name))
	}
	if _, err := r.Service.Options(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Trainer states the trainer's limits in tokens, which bound the rollouts and the rows alike, and what it takes.
type Trainer struct {
	// PromptLength and ResponseLength are the longest prompt and response in tokens (verl's data.max_prompt_length
	// and data.max_response_length).
	PromptLength   int `yaml:"prompt_length"`
	ResponseLength int `yaml:"response_length"`
	// Contract is padded (verl's DataProto: one row per rollout) or segments (TransferQueue, and
	// readers of Parquet that know output_idx: one row per segment).
	Contract string `yaml:"contract"`
}

// Contracts of a trainer.
const (
	ContractPadded   = "padded"
	ContractSegments = "segments"
)

// Feed is the gRPC service for trainers.
type Feed struct {
	// Listen is HOST:PORT; port 0 chooses one.
	Listen string `yaml:"listen"`
	// AdvertiseEnv names an environment variable with the host (in Kubernetes the pod's address) that others are told where
	// this server leads; without one they are told the address it listens at.
	AdvertiseEnv string `yaml:"advertise_env"`
	// TokenEnv names an environment variable with the bearer token that clients must send.
	TokenEnv string `yaml:"token_env"`
	// TLS serves encrypted; without it the feed speaks in the clear.
	TLS TLS `yaml:"tls"`
	// SendTimeout is how long a reader may take for one chunk before it is dropped.
	SendTimeout time.Duration `yaml:"send_timeout"`
}

// Options reads what the feed's server needs from files and the environment.
func (f Feed) Options() (feed.Options, error) {
	opts := feed.Defaults()
	opts.SendTimeout = f.SendTimeout
	if f.TokenEnv != "" {
		opts.Token = feed.Token(os.Getenv(f.TokenEnv))
	}
	var err error
	opts.TLS, err = f.TLS.server("feed.tls")
	return opts, err
}

// Admin serves health, metrics and pprof.
type Admin struct {
	// Listen is HOST:PORT; empty serves nothing.
	Listen string `yaml:"listen"`
	// Viewer is the reward server's page of the run in reward.archive, at /view/.
	Viewer Viewer `yaml:"viewer"`
}

// Viewer says who may open the page.
type Viewer struct {
	// TokenEnv names an environment variable with the token that a reader must have; without one the page is
	// served on a loopback address only.
	TokenEnv string `yaml:"token_env"`
	// Hosts are names of the server, beside IP addresses and localhost.
	Hosts []string `yaml:"hosts"`
}

// Judges.
const (
	JudgeRules  = "rules"
	JudgeOpenAI = "openai"
)

// Defaults suit one machine.
func Defaults() Config {
	return Config{
		Run:     "local",
		NATS:    NATS{Config: jetstream.Defaults()},
		Policy:  Policy{Config: policy.Defaults(), API: APICompletions, Endpoints: pool.Defaults()},
		Rollout: rollout.Defaults(), Sandbox: sandbox.Defaults(),
		Worker: Worker{Groups: 2, CacheBytes: 64 << 30, Drain: 20 * time.Second},
		Reward: Reward{
			Preset: "default", Judge: JudgeRules, OpenAI: openai.Defaults(), Groups: 4,
			Canaries: judges.GuardDefaults(), Verdicts: Verdicts{Store: VerdictsAuto, Memory: 100_000},
		},
		Leader:  leader.Defaults(),
		Trainer: Trainer{PromptLength: 4096, ResponseLength: 16384, Contract: ContractPadded},
		Feed:    Feed{Listen: "127.0.0.1:0", SendTimeout: feed.Defaults().SendTimeout},

		Telemetry: Telemetry{Traces: Traces{SampleRatio: 1}},
	}
}

// Load reads a file over the defaults.
func Load(path string) (Config, error) {
	c := Defaults()
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("config: %w", err)
	}
	if err := strictyaml.Decode(path, data, &c); err != nil && !errors.Is(err, strictyaml.ErrEmpty) {
		return c, err
	}
	return c, nil
}

// LoadOptional is Load where a file is named, and the defaults where path is empty.
func LoadOptional(path string) (Config, error) {
	if path == "" {
		return Defaults(), nil
	}
	return Load(path)
}

// Resolve spreads values that stand in one section and hold in others.
func (c *Config) Resolve() {
	c.Rollout.MaxPromptTokens, c.Rollout.MaxResponseTokens = c.Trainer.PromptLength, c.Trainer.ResponseLength
	c.Leader.Limits.PromptLength, c.Leader.Limits.ResponseLength = c.Trainer.PromptLength, c.Trainer.ResponseLength
	c.Leader.OneRow = c.Trainer.Contract != ContractSegments
	c.Leader.Run = c.Run
}

// SetJudge names the judge: its endpoint's URL or JudgeRules, and its model; what is empty stays as it is.
func (r *Reward) SetJudge(judge, model string) {
	switch judge {
	case "":
	case JudgeRules:
		r.Judge = JudgeRules
	default:
		r.Judge, r.OpenAI.BaseURL = JudgeOpenAI, judge
	}
	if model != "" {
		r.OpenAI.Model = model
	}
}

// ValidateWorker checks the sections of a rollout worker.
func (c Config) ValidateWorker() error {
	errs := []error{c.common(), c.Policy.validate(), c.Rollout.Validate(), c.Sandbox.Validate()}
	if c.Rollout.Context == rollout.ContextCompress && c.Trainer.Contract == ContractPadded {
		errs = append(errs, errors.New("rollout.context: compress makes several rows of one rollout, and trainer.contract padded takes one: "+
			"set trainer.contract to segments if the trainer takes one row per segment, or rollout.context to append"))
	}
	if c.Worker.Groups > c.NATS.MaxAckPending {
		errs = append(errs, fmt.Errorf("nats.max_ack_pending: %d is below worker.groups %d: this worker alone would stand still", c.NATS.MaxAckPending, c.Worker.Groups))
	}
	if c.Worker.CacheBytes < 0 || c.Worker.Drain < 0 {
		errs = append(errs, fmt.Errorf("worker: cache_bytes %d and drain %s must not be negative", c.Worker.CacheBytes, c.Worker.Drain))
	}
	if c.Worker.Groups < 1 {
		errs = append(errs, fmt.Errorf("worker.groups: %d, want at least 1", c.Worker.Groups))
	}
	return errors.Join(errs...)
}

// ValidateReward checks the sections of a reward server with its leader and feed.
func (c Config) ValidateReward() error {
	errs := []error{c.common(), c.Leader.Validate()}
	errs = append(errs, c.Reward.validate())
	if want := max(c.Leader.MaxGroups, c.Reward.Groups); want > c.NATS.MaxAckPending {
		errs = append(errs, fmt.Errorf("nats.max_ack_pending: %d is below the %d groups of leader.max_groups or reward.groups: the line would stand still", c.NATS.MaxAckPending, want))
	}
	if c.Reward.Groups < 1 {
		errs = append(errs, fmt.Errorf("reward.groups: %d, want at least 1", c.Reward.Groups))
	}
	if c.Feed.SendTimeout < time.Second {
		errs = append(errs, fmt.Errorf("feed.send_timeout: %s is below 1s", c.Feed.SendTimeout))
	}
	if _, err := c.Feed.Options(); err != nil {
		errs = append(errs, err)
	}
	if name := c.Admin.Viewer.TokenEnv; name != "" && os.Getenv(name) == "" {
		errs = append(errs, fmt.Errorf("admin.viewer.token_env: the environment variable %s is not set", name))
	}
	if name := c.Feed.AdvertiseEnv; name != "" && os.Getenv(name) == "" {
		errs = append(errs, fmt.Errorf("feed.advertise_env: the environment variable %s is not set", name))
	}
	if name := c.Feed.TokenEnv; name != "" && os.Getenv(name) == "" {
		errs = append(errs, fmt.Errorf("feed.token_env: the environment variable %s is not set", name))
	}
	return errors.Join(errs...)
}

func (c Config) common() error {
	errs := []error{jetstream.CheckRun(c.Run), c.NATS.Config.Validate(), c.Telemetry.Traces.validate()}
	if c.Blob == "" {
		errs = append(errs, errors.New("blob: a directory or URL of the object store is needed"))
	}
	for name, v := range map[string]int{"prompt_length": c.Trainer.PromptLength, "response_length": c.Trainer.ResponseLength} {
		if v < 1 {
			errs = append(errs, fmt.Errorf("trainer.%s: %d, want at least 1", name, v))
		}
	}
	if t := c.Trainer.Contract; t != ContractPadded && t != ContractSegments {
		errs = append(errs, fmt.Errorf("trainer.contract: %q, want %s or %s", t, ContractPadded, ContractSegments))
	}
	return errors.Join(errs...)
}

// External additionally needs a broker outside this process.
func (c Config) External() error {
	if c.NATS.URL == "" {
		return errors.New("nats.url: the URL of a NATS server with JetStream is needed")
	}
	return nil
}
