// Package config turns layers of cordis.yml files into rows for [plugin.Loader].
//
// A file is a list of rows. Each mounts a plugin:
//
//	# .config/dsh/cordis.yml
//	- id: deepseek
//	  plugin: openai-compatible
//	  config:
//	    baseURL: ${env:DEEPSEEK_BASE_URL:-https://api.deepseek.com}
//	    timeout: 30s
//	- id: bash
//	  disabled: true
//
// The keys of a row are id (1 to 64 of a-z, 0-9 and -), plugin, config, disabled and required. An
// unknown key, a wrong type and anything else that is not understood is an error with file, line
// and column.
//
// # Layers
//
// A later layer adds rows, or changes one by its id: maps merge key by key, lists and scalars are
// replaced whole, and the row keeps its place. The tag !replace before a value or a row drops what
// the layers below say about it, and !remove drops the key or the row itself:
//
//	# .dsh/cordis.yml
//	- !remove
//	  id: telemetry
//	- id: web
//	  config:
//	    headers: !replace {accept: text/html}
//	    proxy: !remove
//
// A layer that names another plugin for a row drops its config from below. Removing what is not
// there is an error, because it is a typing mistake more often than not.
//
// # References
//
// In texts below config, ${env:NAME} is an environment variable, ${env:NAME:-default} one that may
// be unset or empty, and ${file:path} a file's content without the line ends at its end; "$${" is
// a literal "${". A text that is one reference and nothing else may also stand for a number or for
// true and false. They are resolved by [Composition.Prepare], never shown, and restricted in the
// layer of a project: see [Layer] and [Environment].
//
// # Config types
//
// A key is an exported field, named by its json tag and documented by its doc tag:
//
//	type Config struct {
//		BaseURL string        `json:"baseURL" doc:"Where the server is."`
//		Timeout time.Duration `json:"timeout" doc:"How long to wait for the first byte."`
//	}
//
// Fields may be texts, numbers, bools, durations, structs, pointers, lists, maps with text keys,
// any, and types that implement encoding.TextUnmarshaler or json.Unmarshaler; others are not
// configurable. A key that is not written keeps the plugin's default.
//
// A type with a method Validate() error is asked about each value of it that a file holds, and its
// error is reported with the place of that value; the config's own Validate is asked last, about
// all of it.
//
// Functions and a [Composition] may be used from any goroutine, and so may a [Manager].
package config
