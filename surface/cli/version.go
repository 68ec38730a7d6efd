package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the binary knows about itself.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"` // of the commit
	Dirty   bool   `json:"dirty,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = orElse(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

func (p *program) versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: exactly(0)}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(*cobra.Command, []string) error { return p.printVersion(*asJSON) }
	return c
}

func (p *program) printVersion(asJSON bool) error {
	b := thisBuild()
	return p.print(asJSON, b, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "dsh %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
		return err
	})
}
