// Package presets embeds the shipped reward presets, one YAML file each.
package presets

import "embed"

// FS holds NAME.yaml for every shipped preset.
//
//go:embed *.yaml
var FS embed.FS
