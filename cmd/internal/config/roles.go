package config

import (
	"errors"
	"fmt"
	"strings"
)

// Roles are the programs that read a configuration, each with what it checks.
const (
	RoleRun    = "run" // verigraph run: flags give the policy, its model and the output
	RoleWorker = "rollout-worker"
	RoleReward = "reward-server"
)

var roles = []string{RoleRun, RoleWorker, RoleReward}

// RoleNames lists the roles for a message.
func RoleNames() string { return strings.Join(roles, ", ") }

// ValidateRole checks what the program named role reads. What `verigraph run` takes from flags may be missing.
func (c Config) ValidateRole(role string) error {
	switch role {
	case RoleRun:
		for _, v := range []struct {
			field *string
			value string
		}{{&c.Blob, "out"}, {&c.Policy.BaseURL, "http://127.0.0.1"}, {&c.Policy.Model, "model"}, {&c.Policy.Tokenizer, "tokenizer"}} {
			if *v.field == "" {
				*v.field = v.value
			}
		}
		return errors.Join(c.ValidateWorker(), c.ValidateReward())
	case RoleWorker:
		return errors.Join(c.ValidateWorker(), c.External())
	case RoleReward:
		return errors.Join(c.ValidateReward(), c.External())
	}
	return fmt.Errorf("--for: %q, want %s", role, RoleNames())
}
