package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// outputFlag registers --output; asJSON is whether json was chosen.
func outputFlag(f *pflag.FlagSet, asJSON *bool, what string) {
	f.Var((*outputValue)(asJSON), "output", what+": text or json")
}

type outputValue bool

func (v *outputValue) String() string {
	if *v {
		return "json"
	}
	return "text"
}

func (v *outputValue) Set(s string) error {
	switch s {
	case "text", "json":
		*v = s == "json"
		return nil
	}
	return fmt.Errorf("want text or json")
}

func (v *outputValue) Type() string { return "FORMAT" }
