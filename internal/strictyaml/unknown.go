package strictyaml

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// problem is one fault and where it stands.
type problem struct {
	line int
	text string
}

var unmarshaler = reflect.TypeFor[yaml.Unmarshaler]()

// unknownKeys walks a document beside the type that it fills and names each key that the type lacks, with
// the nearest one that it has. yaml's own check names neither the section nor the neighbours.
func unknownKeys(n *yaml.Node, t reflect.Type, path string) []problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	var found []problem
	switch {
	case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
		return unknownKeys(n.Content[0], t, path)
	case n.Kind == yaml.AliasNode:
		return nil // reported where it is anchored, if its type is the same there
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			found = append(found, unknownKeys(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			found = append(found, unknownKeys(n.Content[i+1], t.Elem(), below(path, n.Content[i].Value))...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := keys(t)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Tag == "!!merge" {
				continue
			}
			if ft, ok := fields[key.Value]; ok {
				found = append(found, unknownKeys(n.Content[i+1], ft, below(path, key.Value))...)
				continue
			}
			text := fmt.Sprintf("unknown key %q", key.Value)
			if path != "" {
				text += " in " + path
			}
			if near := nearest(key.Value, fields); near != "" {
				text += fmt.Sprintf(": did you mean %q?", near)
			}
			found = append(found, problem{key.Line, text})
		}
	}
	return found
}

func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// keys are the YAML names of a struct's fields, those of inlined structs included.
func keys(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case strings.Contains(options, "inline") && f.Type.Kind() == reflect.Struct:
			for k, v := range keys(f.Type) {
				out[k] = v
			}
		case name == "":
			out[strings.ToLower(f.Name)] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}

// nearest is the one name within a third of the key's length in edits; the first in the alphabet of equals.
func nearest(key string, names map[string]reflect.Type) string {
	best, least := "", len(key)/3+2
	for name := range names {
		if d := distance(key, name); d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
