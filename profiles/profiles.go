// Package profiles holds the shipped compositions: which plugins run, as cordis.yml files that
// are part of the binary. Everything here may be used from any goroutine.
package profiles

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/nearest"
)

// Default is the profile that is meant when none is named.
const Default = "headless"

//go:embed base.yml
var base string

//go:embed headless.yml
var headless string

//go:embed demo.yml
var demo string

// Names lists the profiles.
func Names() []string { return []string{"base", "headless", "demo"} }

// Layers returns the layers of a profile, the base first; "" is [Default]. The error for an unknown
// name tells the nearest known one.
func Layers(name string) ([]config.Layer, error) {
	layers := []config.Layer{{Kind: config.Profile, Name: "base", Text: base}}
	switch name {
	case "base":
	case "", "headless":
		layers = append(layers, config.Layer{Kind: config.Profile, Name: "headless", Text: headless})
	case "demo":
		layers = append(layers, config.Layer{Kind: config.Profile, Name: "demo", Text: demo})
	default:
		if near := nearest.Name(name, Names()); near != "" {
			return nil, fmt.Errorf("unknown profile %q: did you mean %q?", name, near)
		}
		return nil, fmt.Errorf("unknown profile %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return layers, nil
}
