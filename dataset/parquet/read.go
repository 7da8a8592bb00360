package parquet

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	pq "github.com/parquet-go/parquet-go"

	"github.com/verigraph/verigraph/dataset"
)

// Read reads a whole batch. It refuses a file of another schema.
//
// The lists with a value per token are read page by page and all else row by row: the library's way through
// single values is an order of magnitude slower.
func Read(r io.ReaderAt, size int64) (dataset.Meta, []dataset.Row, error) {
	file, err := pq.OpenFile(r, size)
	if err != nil {
		return dataset.Meta{}, nil, fmt.Errorf("parquet: read: %w", err)
	}
	meta, err := dataset.ParseMeta(file.Lookup)
	if err != nil {
		return dataset.Meta{}, nil, fmt.Errorf("parquet: read: %w", err)
	}
	if !pq.EqualNodes(file.Schema(), Schema()) && !pq.EqualNodes(file.Schema(), untraced) {
		return dataset.Meta{}, nil, fmt.Errorf("parquet: read: the file's columns are not those of schema version %d", dataset.SchemaVersion)
	}
	rows, err := readShort(file)
	if err != nil {
		return dataset.Meta{}, nil, fmt.Errorf("parquet: read: %w", err)
	}
	int32s, float32s := pq.Value.Int32, pq.Value.Float
	err = errors.Join(
		readList(file, "prompt_ids", rows, func(r *dataset.Row) *[]int32 { return &r.PromptIDs }, int32Page, int32s),
		readList(file, "response_ids", rows, func(r *dataset.Row) *[]int32 { return &r.ResponseIDs }, int32Page, int32s),
		readList(file, "response_mask", rows, func(r *dataset.Row) *[]int8 { return &r.ResponseMask }, int8Page,
			func(v pq.Value) int8 { return int8(v.Int32()) }),
		readList(file, "rollout_log_probs", rows, func(r *dataset.Row) *[]float32 { return &r.RolloutLogProbs }, float32Page, float32s),
	)
	if err != nil {
		return dataset.Meta{}, nil, fmt.Errorf("parquet: read: %w", err)
	}
	return meta, rows, nil
}

// untraced is the schema of files from before trace_id.
var untraced = func() pq.Node {
	fields := slices.DeleteFunc(slices.Clone(reflect.VisibleFields(reflect.TypeFor[dataset.Row]())), func(f reflect.StructField) bool { return f.Name == "TraceID" })
	return pq.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
}()

var perToken = map[string]bool{"PromptIDs": true, "ResponseIDs": true, "ResponseMask": true, "RolloutLogProbs": true}

// shortRow is dataset.Row but for its tags, by which Parquet leaves out the lists with a value per token.
var shortRow = func() reflect.Type {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(reflect.TypeFor[dataset.Row]()) {
		if perToken[f.Name] {
			f.Tag = `parquet:"-"`
		}
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	return reflect.StructOf(fields)
}()

func readShort(file *pq.File) ([]dataset.Row, error) {
	reader := pq.NewReader(file)
	defer reader.Close()
	rows := make([]dataset.Row, file.NumRows())
	for i := range rows {
		short := reflect.New(shortRow)
		if err := reader.Read(short.Interface()); err != nil {
			return nil, fmt.Errorf("row %d of %d: %w", i, len(rows), err)
		}
		rows[i] = short.Elem().Convert(reflect.TypeFor[dataset.Row]()).Interface().(dataset.Row)
	}
	return rows, nil
}

// readList reads a list column into a field of rows. raw are the values of a page without a dictionary.
func readList[T any](file *pq.File, name string, rows []dataset.Row, field func(*dataset.Row) *[]T, raw func(pq.Page) []T, of func(pq.Value) T) error {
	leaf, ok := file.Schema().Lookup(name, "list", "element")
	if !ok {
		return fmt.Errorf("column %s: no such list", name)
	}
	row := -1
	for _, group := range file.RowGroups() {
		pages := group.ColumnChunks()[leaf.ColumnIndex].Pages()
		err := eachPage(pages, func(page pq.Page) (err error) {
			row, err = addPage(page, rows, row, field, raw, of)
			return err
		})
		if err = errors.Join(err, pages.Close()); err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
	}
	if row != len(rows)-1 {
		return fmt.Errorf("column %s: %d of %d rows", name, row+1, len(rows))
	}
	return nil
}

func eachPage(pages pq.Pages, do func(pq.Page) error) error {
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = do(page)
		pq.Release(page)
		if err != nil {
			return err
		}
	}
}

// addPage adds a page's values to the rows after row, or to row where the page goes on with it, and returns
// the row that it ends in.
func addPage[T any](page pq.Page, rows []dataset.Row, row int, field func(*dataset.Row) *[]T, raw func(pq.Page) []T, of func(pq.Value) T) (int, error) {
	starts, present := page.RepetitionLevels(), page.DefinitionLevels()
	values, err := pageValues(page, raw, of)
	if err != nil {
		return row, err
	}
	if len(starts) != len(present) {
		return row, fmt.Errorf("a page of %d repetition and %d definition levels", len(starts), len(present))
	}
	for i := 0; i < len(starts); {
		if starts[i] == 0 {
			if row++; row >= len(rows) {
				return row, fmt.Errorf("more than %d rows", len(rows))
			}
			*field(&rows[row]) = []T{}
		} else if row < 0 {
			return row, errors.New("it begins within a row")
		}
		n := int(present[i])
		for i++; i < len(starts) && starts[i] != 0; i++ {
			n += int(present[i])
		}
		if n > len(values) {
			return row, fmt.Errorf("row %d lacks values", row)
		}
		list := field(&rows[row])
		*list, values = append(*list, values[:n]...), values[n:]
	}
	if len(values) > 0 {
		return row, fmt.Errorf("%d values belong to no row", len(values))
	}
	return row, nil
}

// pageValues are the values of a page that are present.
func pageValues[T any](page pq.Page, raw func(pq.Page) []T, of func(pq.Value) T) ([]T, error) {
	if page.Dictionary() == nil {
		return raw(page), nil
	}
	all := make([]pq.Value, page.NumValues())
	n, err := page.Values().ReadValues(all)
	if err != nil && !errors.Is(err, io.EOF) || n != len(all) {
		return nil, fmt.Errorf("%d of %d values: %w", n, len(all), err)
	}
	values := make([]T, 0, n)
	for _, v := range all {
		if !v.IsNull() {
			values = append(values, of(v))
		}
	}
	return values, nil
}

func int32Page(p pq.Page) []int32 { data := p.Data(); return data.Int32() }

func float32Page(p pq.Page) []float32 { data := p.Data(); return data.Float() }

func int8Page(p pq.Page) []int8 {
	wide := int32Page(p)
	narrow := make([]int8, len(wide))
	for i, v := range wide {
		narrow[i] = int8(v)
	}
	return narrow
}
