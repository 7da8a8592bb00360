package config

import _ "embed" // the schema

// Schema is the JSON schema of a configuration file. A test writes it, and docs/configuration.md, from the structs.
//
//go:embed schema.json
var Schema []byte
