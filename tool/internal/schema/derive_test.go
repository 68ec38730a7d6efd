package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type shapes struct {
	Path     string          `json:"file_path" doc:"a \"file\" <or> folder & more"`
	Mode     string          `json:"mode,omitempty" enum:"fast,slow" doc:"how"`
	Limit    int             `json:"limit,omitempty"`
	Small    int8            `json:"small,omitzero"`
	Count    uint            `json:"count,omitempty"`
	Byte     uint8           `json:"byte,omitempty"`
	Ratio    float64         `json:"ratio,omitempty"`
	Thin     float32         `json:"thin,omitempty"`
	All      *bool           `json:"all"`
	Todos    []todo          `json:"todos"`
	Env      map[string]int  `json:"env"`
	Extra    any             `json:"extra,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"`
	Grid     [][]string      `json:"grid,omitempty"`
	Plain    bool
	Ignored  string `json:"-"`
	internal string
	embedded
}

type todo struct {
	Content string `json:"content"`
	Status  string `json:"status" enum:"pending,done"`
}

type embedded struct {
	Inlined string `json:"inlined,omitempty"`
}

func TestSchemaOfAType(t *testing.T) {
	want := `{"type":"object","properties":{` +
		`"file_path":{"type":"string","description":"a \"file\" <or> folder & more"},` +
		`"mode":{"type":"string","description":"how","enum":["fast","slow"]},` +
		`"limit":{"type":"integer"},` +
		`"small":{"type":"integer","minimum":-128,"maximum":127},` +
		`"count":{"type":"integer","minimum":0},` +
		`"byte":{"type":"integer","minimum":0,"maximum":255},` +
		`"ratio":{"type":"number"},` +
		`"thin":{"type":"number"},` +
		`"all":{"type":"boolean"},` +
		`"todos":{"type":"array","items":{"type":"object","properties":{"content":{"type":"string"},` +
		`"status":{"type":"string","enum":["pending","done"]}},"required":["content","status"],"additionalProperties":false}},` +
		`"env":{"type":"object","additionalProperties":{"type":"integer"}},` +
		`"extra":{},"raw":{},` +
		`"grid":{"type":"array","items":{"type":"array","items":{"type":"string"}}},` +
		`"Plain":{"type":"boolean"},"inlined":{"type":"string"}},` +
		`"required":["file_path","todos","env","Plain"],"additionalProperties":false}`
	if got := string(For(reflect.TypeFor[shapes]()).JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(For(reflect.TypeFor[struct{}]()).JSON()), `{"type":"object","properties":{},"additionalProperties":false}`; got != want {
		t.Errorf("no members: got %s, want %s", got, want)
	}
	_ = shapes{}.internal // it is there to be left out
}

type recursive struct {
	Next []recursive `json:"next"`
}

func TestTypesWithoutASchemaPanic(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"recursive":       reflect.TypeFor[recursive](),
		"not a struct":    reflect.TypeFor[string](),
		"bytes":           reflect.TypeFor[struct{ B []byte }](),
		"array":           reflect.TypeFor[struct{ A [2]int }](),
		"channel":         reflect.TypeFor[struct{ C chan int }](),
		"interface":       reflect.TypeFor[struct{ E error }](),
		"pointer element": reflect.TypeFor[struct{ P []*int }](),
		"encodes itself":  reflect.TypeFor[struct{ T time.Time }](),
		"map key":         reflect.TypeFor[struct{ M map[int]string }](),
		"option": reflect.TypeFor[struct {
			N int `json:"n,string"`
		}](),
		"enum of integers": reflect.TypeFor[struct {
			N int `enum:"1,2"`
		}](),
		"two of one name": reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
			{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		}),
		"embedded pointer": reflect.TypeFor[struct{ *todo }](),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(r.(string), "schema: ") {
					t.Errorf("For did not refuse it: %v", r)
				}
			}()
			For(typ)
		})
	}
}

func BenchmarkFor(b *testing.B) {
	for b.Loop() {
		For(reflect.TypeFor[shapes]())
	}
}
