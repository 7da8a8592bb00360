package parquet

import (
	"reflect"
	"strings"
)

// reflectFields maps column names to the values of a struct with parquet tags.
func reflectFields(v any) map[string]any {
	out := map[string]any{}
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("parquet"), ",")
		out[name] = plain(value.Field(i))
	}
	return out
}

// plain turns nested structs into maps.
func plain(v reflect.Value) any {
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Struct {
		return v.Interface()
	}
	list := make([]any, v.Len())
	for i := range list {
		list[i] = reflectFields(v.Index(i).Interface())
	}
	return list
}
