package config

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type everything struct {
	Text     string              `json:"text"`
	Yes      bool                `json:"yes"`
	Whole    int64               `json:"whole"`
	Small    int8                `json:"small"`
	Positive uint64              `json:"positive"`
	Real     float64             `json:"real"`
	Wait     time.Duration       `json:"wait"`
	Date     time.Time           `json:"date"`
	List     []string            `json:"list"`
	Map      map[string][]int    `json:"map"`
	Pointer  *everything         `json:"pointer"`
	Inner    struct{ A, B bool } `json:"inner"`
}

func drawEverything(t *rapid.T, depth int) everything {
	texts := rapid.StringOf(rapid.RuneFrom([]rune("ab 5:#'\"\\\n-{}[]!&*é~{,%@`|>?")))
	e := everything{
		Text:     texts.Draw(t, "text"),
		Yes:      rapid.Bool().Draw(t, "yes"),
		Whole:    rapid.Int64().Draw(t, "whole"),
		Small:    rapid.Int8().Draw(t, "small"),
		Positive: rapid.Uint64().Draw(t, "positive"),
		Real:     rapid.Float64().Draw(t, "real"),
		Wait:     time.Duration(rapid.Int64().Draw(t, "wait")),
		Date:     time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "date"), 0).UTC(),
		List:     rapid.SliceOf(texts).Draw(t, "list"),
		Map:      rapid.MapOf(texts, rapid.SliceOf(rapid.Int())).Draw(t, "map"),
	}
	e.Inner.A = rapid.Bool().Draw(t, "a")
	if depth > 0 && rapid.Bool().Draw(t, "deeper") {
		inner := drawEverything(t, depth-1)
		e.Pointer = &inner
	}
	return e
}

// What the documentation says a file would have to hold to get a config is what gets it.
func TestWrittenIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawEverything(t, 2)
		encoded, err := json.Marshal(written(reflect.ValueOf(want))) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		var p problems
		layer := &Layer{Kind: Profile, Name: "0"}
		v := parseValue(layer, string(encoded), &p)
		if v == nil {
			t.Fatal(p.err())
		}
		var r resolver
		v, _ = r.expand("e", v, &p)
		var got everything
		(&decoder{&p, &r}).store("e", v, reflect.ValueOf(&got).Elem())
		if err := p.err(); err != nil {
			t.Fatalf("%v\n%s", err, encoded)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s\n%s", d, encoded)
		}
	})
}
