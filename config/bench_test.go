package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/config"
)

// shipped is a composition of the size of a shipped profile, with what people lay over it.
func shipped() []config.Layer {
	var b strings.Builder
	for i := range 25 {
		fmt.Fprintf(&b, `
# What row %d is for.
- id: row-%d
  plugin: wire
  config:
    url: ${env:URL_%d:-https://api.example}
    timeout: 30s
    models: [{name: model-%d, window: 131072}]
`, i, i, i, i)
	}
	return []config.Layer{
		{Kind: config.Profile, Name: "base", Text: b.String()},
		{Kind: config.User, Text: "- {id: row-3, config: {retries: 3, headers: {a: b}}}\n- {id: row-4, disabled: true}\n"},
		{Kind: config.Set, Text: "row-5.timeout=1m"},
	}
}

// BenchmarkCheck is what composing costs at start-up: read, merge, decode and bind.
func BenchmarkCheck(b *testing.B) {
	o := config.Options{Layers: shipped(), Plugins: plugins(nil)}
	b.SetBytes(int64(len(o.Layers[0].Text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Check(o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompose(b *testing.B) {
	layers := shipped()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Compose(layers); err != nil {
			b.Fatal(err)
		}
	}
}
