package generate

import (
	"errors"
	"fmt"
	"os"

	"github.com/verigraph/verigraph/internal/strictyaml"
)

// Config says what to generate.
type Config struct {
	// Run names the run; Seed orders the prompts and seeds the rollouts.
	Run  string `yaml:"run" json:"run"`
	Seed int64  `yaml:"seed" json:"seed"`
	// Samples is the number of rollouts of one dispatch of a prompt, Rounds how often a prompt is dispatched at most.
	Samples int `yaml:"samples" json:"samples"`
	Rounds  int `yaml:"rounds" json:"rounds"`
	// Parallel is the number of groups in work at once.
	Parallel int      `yaml:"parallel" json:"-"`
	Sources  []Source `yaml:"sources" json:"sources"`
	// Price is in any currency per million tokens, for the cost that is shown.
	Price Price `yaml:"price" json:"-"`
}

// Source is a set of prompts, as verigraph import reads it.
type Source struct {
	Name    string `yaml:"name" json:"name"`
	Prompts string `yaml:"prompts" json:"prompts"`
	Format  string `yaml:"format" json:"format"`
	Labels  string `yaml:"labels" json:"labels"`
	DataDir string `yaml:"data_dir" json:"data_dir"`
	// Weight is its share of the dispatches while no source is done.
	Weight float64 `yaml:"weight" json:"weight"`
	// Want is the number of accepted trajectories.
	Want int `yaml:"want" json:"want"`
}

// Price of tokens.
type Price struct {
	Input  float64 `yaml:"input"`
	Output float64 `yaml:"output"`
}

// Load reads a file over the defaults.
func Load(path string) (Config, error) {
	c := Config{Run: "teacher", Seed: 1, Samples: 4, Rounds: 2, Parallel: 2}
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("config: %w", err)
	}
	if err := strictyaml.Decode(path, data, &c); err != nil {
		return c, err
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Validate reports every problem at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, k := range []struct {
		key string
		v   int
	}{{"samples", c.Samples}, {"rounds", c.Rounds}, {"parallel", c.Parallel}} {
		bad(k.v > 0, "%s: %d, want at least 1", k.key, k.v)
	}
	bad(len(c.Sources) > 0, "sources: empty")
	seen := map[string]bool{}
	for i, s := range c.Sources {
		bad(s.Name != "" && s.Prompts != "" && s.Format != "", "sources[%d]: name, prompts and format are needed", i)
		bad(!seen[s.Name], "sources[%d].name: %q stands there twice", i, s.Name)
		seen[s.Name] = true
		bad(s.Weight > 0, "sources[%d].weight: %g, want more than 0", i, s.Weight)
		bad(s.Want > 0, "sources[%d].want: %d, want at least 1", i, s.Want)
	}
	bad(c.Price.Input >= 0 && c.Price.Output >= 0, "price: negative")
	return errors.Join(errs...)
}
