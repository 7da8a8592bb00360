package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/policy"
)

var update = flag.Bool("update", false, "write schema.json and docs/configuration.md")

// fieldName is a word with a capital inside or at its start.
var fieldName = regexp.MustCompile(`\b[A-Z]+[a-z][A-Za-z]*\b`)

const (
	schemaFile    = "schema.json"
	referenceFile = "../../../docs/configuration.md"
)

// The schema and the reference are made from the structs, their comments and their defaults.
func TestSchemaAndReferenceAreThoseOfTheStructs(t *testing.T) {
	t.Parallel()
	schema := reflectSchema(t)
	data, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	data = append(data, '\n')
	reference, undocumented := renderReference(schema)
	require.Empty(t, undocumented, "keys without a comment")
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, data, 0o600))
		require.NoError(t, os.WriteFile(referenceFile, reference, 0o600))
		return
	}
	require.True(t, bytes.Equal(data, config.Schema), "schema.json is out of date: make docs")
	written, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	require.True(t, bytes.Equal(reference, written), "docs/configuration.md is out of date: make docs")
}

func reflectSchema(t *testing.T) *jsonschema.Schema {
	r := &jsonschema.Reflector{
		FieldNameTag: "yaml", Anonymous: true, DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true,
		Namer: func(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }, // most are called Config
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch {
			case t == reflect.TypeFor[time.Duration]():
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`}
			case t == reflect.TypeFor[policy.Secret]():
				return &jsonschema.Schema{Type: "string"}
			}
			return nil
		},
	}
	for _, dir := range []string{
		".", "../../../dataset", "../../../evidence", "../../../jetstream", "../../../policy", "../../../reward",
		"../../../rollout", "../../../sandbox", "../../../trajectory",
	} {
		require.NoError(t, r.AddGoComments("github.com/verigraph/verigraph/cmd/internal/config", dir))
	}
	schema := r.Reflect(config.Config{})
	schema.Title = "VeriGraph configuration"
	var defaults map[string]any
	text, err := yaml.Marshal(config.Defaults())
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &defaults))
	describe(schema)
	addDefaults(schema, defaults)
	return schema
}

// describe puts the keys into the comments in place of the fields' names.
func describe(s *jsonschema.Schema) {
	if s == nil || s.Properties == nil {
		return
	}
	names := map[string]string{} // of the struct's fields, as comments write them
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		names[strings.ReplaceAll(p.Key, "_", "")] = p.Key
	}
	before := ""
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		p.Value.Description = fieldName.ReplaceAllStringFunc(strings.Join(strings.Fields(p.Value.Description), " "), func(word string) string {
			if key, ok := names[strings.ToLower(word)]; ok {
				return key // as users write it
			}
			return word
		})
		if p.Value.Description == "" && strings.Contains(before, p.Key) {
			p.Value.Description = before // one comment for two fields
		}
		before = p.Value.Description
		describe(p.Value)
		describe(p.Value.Items)
		describe(p.Value.AdditionalProperties)
	}
}

func addDefaults(s *jsonschema.Schema, values map[string]any) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		switch v := values[p.Key].(type) {
		case map[string]any:
			if p.Value.Properties != nil {
				addDefaults(p.Value, v)
			}
		case nil:
		default:
			p.Value.Default = v
		}
	}
}

func renderReference(schema *jsonschema.Schema) (page []byte, undocumented []string) {
	var out bytes.Buffer
	out.WriteString("# Configuration\n\nOne file configures every program; each reads the sections that it uses, strictly: an unknown or doubled key or a wrong type is an\n" +
		"error with its line. `verigraph config check FILE` reports all problems at once, `verigraph config show --resolved FILE` prints what a file\n" +
		"means with every default, `verigraph config schema` prints the JSON schema for editors. Flags win over the file. Durations are written\n" +
		"`90s`, `2m30s`, `1h`; sizes are bytes. This page is made from the code.\n")
	renderSection(&out, "", schema, &undocumented)
	return out.Bytes(), undocumented
}

func renderSection(out *bytes.Buffer, path string, s *jsonschema.Schema, undocumented *[]string) {
	title := path
	if title == "" {
		title = "The top"
	}
	about := ""
	if s.Description != "" {
		about = "\n" + s.Description + "\n"
	}
	fmt.Fprintf(out, "\n## %s\n%s\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n", title, about)
	type section struct {
		path   string
		schema *jsonschema.Schema
	}
	var below []section
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		v, name := p.Value, strings.TrimPrefix(path+"."+p.Key, ".")
		kind := v.Type
		switch {
		case v.Properties != nil && v.Properties.Len() > 0:
			kind, below = "section", append(below, section{name, v})
		case v.Items != nil && v.Items.Properties != nil:
			kind, below = "list of sections", append(below, section{name + "[]", v.Items})
		case v.AdditionalProperties != nil && v.AdditionalProperties.Properties != nil:
			kind, below = "sections by name", append(below, section{name + ".NAME", v.AdditionalProperties})
		case v.Items != nil:
			kind = "list of " + v.Items.Type
		case v.Pattern != "":
			kind = "duration"
		}
		value := ""
		if v.Properties == nil && v.Description == "" && kind != "section" {
			*undocumented = append(*undocumented, name)
		}
		if v.Default != nil && v.Default != "" {
			value = fmt.Sprintf("`%v`", v.Default)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", p.Key, kind, value, strings.ReplaceAll(v.Description, "|", "\\|"))
	}
	for _, b := range below {
		renderSection(out, b.path, b.schema, undocumented)
	}
}
