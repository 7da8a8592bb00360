package evidence

import (
	"strings"
	"testing"
)

func TestDefaultsValidate(t *testing.T) {
	t.Parallel()
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateReportsEveryBadKeyAtOnce(t *testing.T) {
	t.Parallel()
	err := Config{NumberRule: "maybe", MinReasoningBytes: -1}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"number_rule", "max_claim_bytes", "min_reasoning_bytes", "max_reasoning_bytes", "max_premises", "max_claims", "max_nodes"} {
		if !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s is not named in %v", key, err)
		}
	}
	c := Defaults()
	c.MinReasoningBytes = c.MaxReasoningBytes + 1
	if c.Validate() == nil {
		t.Error("a minimum above the maximum is accepted")
	}
}

func TestZeroConfigMeansDefaults(t *testing.T) {
	t.Parallel()
	if g := New(Task{}, Config{}); g.cfg != Defaults() {
		t.Errorf("config is %+v", g.cfg)
	}
}
