package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Support is a judge's word on whether evidence supports a claim.
type Support struct {
	Supported bool   `json:"supported"`
	Reason    string `json:"reason"`
}

// Supports asks whether rendered evidence supports a claim (J of grounding).
func (j *Judge) Supports(ctx context.Context, question string, evidence []string, claim string) (Support, error) {
	material := struct {
		Question string   `json:"question"`
		Evidence []string `json:"evidence"`
		Claim    string   `json:"claim"`
	}{question, evidence, claim}
	s, _, err := ask(ctx, j, j.prompts["support"], material, func(o object) (Support, error) {
		yes, err := o.choice("verdict", "supported", "not_supported")
		return Support{yes, o.reasoning()}, err
	})
	return s, err
}

// maxSplit bounds the claims of one answer.
const maxSplit = 100

// Split asks for the factual claims of an answer in words, each readable on its own.
func (j *Judge) Split(ctx context.Context, question, answer string) ([]string, error) {
	material := struct {
		Question string `json:"question"`
		Answer   string `json:"answer"`
	}{question, answer}
	claims, _, err := ask(ctx, j, j.prompts["split"], material, func(o object) ([]string, error) {
		var list []string
		raw, ok := o["claims"]
		switch {
		case !ok:
			return nil, errors.New(`"claims" is missing`)
		case json.Unmarshal(raw, &list) != nil || string(raw) == "null":
			return nil, errors.New(`"claims" is no list of texts`)
		case len(list) > maxSplit:
			return nil, fmt.Errorf(`"claims" has %d entries, at most %d can be`, len(list), maxSplit)
		}
		for i, c := range list {
			if list[i] = strings.TrimSpace(c); list[i] == "" {
				return nil, fmt.Errorf(`"claims": entry %d is empty`, i+1)
			}
		}
		return list, nil
	})
	return claims, err
}

// SupportIdentity is what Supports and Split depend on besides the material.
func (j *Judge) SupportIdentity() string {
	return fmt.Sprintf("openai %s %s %s temperature=0", j.cfg.Model, j.prompts["support"].hash, j.prompts["split"].hash)
}
