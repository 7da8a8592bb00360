package dataset_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var update = flag.Bool("update", false, "write docs/reference.md")

// The reference of rows and wire is made from dataset/row.go and proto/.
func TestTheReferenceIsThatOfRowsAndProto(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString("# Rows and wire\n\nMade from `dataset/row.go` and `proto/`. How to read rows without our package: [parquet.md](parquet.md); how the calls play\n" +
		"together: [delivery.md](delivery.md), [reward.md](reward.md).\n")
	renderColumns(t, &page)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"../proto"}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), "verigraph/v1/rollout_service.proto", "verigraph/v1/reward_service.proto")
	require.NoError(t, err)
	for _, f := range files {
		renderProto(&page, f)
	}
	const file = "../docs/reference.md"
	if *update {
		require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(written), "make docs")
}

// renderColumns writes the structs of row.go; a comment that stands over several fields is shown with each.
func renderColumns(t *testing.T, page *bytes.Buffer) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "row.go", nil, parser.ParseComments)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			typ := spec.(*ast.TypeSpec)
			fields, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			var rows bytes.Buffer
			about := ""
			for _, f := range fields.Fields.List {
				if f.Doc != nil {
					about = oneLine(f.Doc.Text())
				} else if !strings.Contains(about, f.Names[0].Name) {
					about = ""
				}
				tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
				if column, _, _ := strings.Cut(tag.Get("parquet"), ","); column != "" {
					require.NotEmpty(t, about, "%s has no comment", f.Names[0].Name)
					fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", column, columnType(f.Type), about)
				}
			}
			if rows.Len() > 0 {
				fmt.Fprintf(page, "\n## Columns: %s\n\n%s\n\n| column | type | meaning |\n| --- | --- | --- |\n%s", typ.Name.Name, oneLine(gen.Doc.Text()), rows.String())
			}
		}
	}
}

func columnType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return columnType(e.X) + " or null"
	case *ast.ArrayType:
		if elem := columnType(e.Elt); elem != "byte" {
			return "list of " + elem
		}
		return "bytes"
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return fmt.Sprintf("%T", e)
}

func renderProto(page *bytes.Buffer, f protoreflect.FileDescriptor) {
	comment := func(d protoreflect.Descriptor) string {
		return oneLine(f.SourceLocations().ByDescriptor(d).LeadingComments)
	}
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		fmt.Fprintf(page, "\n## Service %s\n\n%s\n\n| call | takes | gives | meaning |\n| --- | --- | --- | --- |\n", s.Name(), comment(s))
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", m.Name(), streamed(m.Input().Name(), m.IsStreamingClient()), streamed(m.Output().Name(), m.IsStreamingServer()), comment(m))
		}
	}
	for i := range f.Messages().Len() {
		renderMessage(page, f.Messages().Get(i), comment)
	}
}

func renderMessage(page *bytes.Buffer, m protoreflect.MessageDescriptor, comment func(protoreflect.Descriptor) string) {
	fmt.Fprintf(page, "\n### %s\n", m.Name())
	if c := comment(m); c != "" {
		fmt.Fprintf(page, "\n%s\n", c)
	}
	if m.Fields().Len() > 0 {
		page.WriteString("\n| field | type | meaning |\n| --- | --- | --- |\n")
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		var kind string
		switch {
		case fd.IsMap():
			kind = fmt.Sprintf("map of %s", fieldKind(fd.MapValue()))
		case fd.IsList():
			kind = "list of " + fieldKind(fd)
		default:
			kind = fieldKind(fd)
		}
		fmt.Fprintf(page, "| `%s` = %d | %s | %s |\n", fd.Name(), fd.Number(), kind, comment(fd))
	}
	for i := range m.Messages().Len() {
		if sub := m.Messages().Get(i); !sub.IsMapEntry() {
			renderMessage(page, sub, comment)
		}
	}
}

func fieldKind(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.Message() != nil:
		return string(fd.Message().Name())
	case fd.Enum() != nil:
		return string(fd.Enum().Name())
	}
	return fd.Kind().String()
}

func streamed(name protoreflect.Name, is bool) string {
	if is {
		return "stream of " + string(name)
	}
	return string(name)
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
