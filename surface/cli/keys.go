package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v4"
)

// keyList is one key, or a list of keys.
type keyList []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *keyList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*l = keyList{n.Value}
		return nil
	}
	var all []string
	if err := n.Decode(&all); err != nil {
		return fmt.Errorf("line %d: a key, or a list of keys, is wanted", n.Line)
	}
	*l = all
	return nil
}

// readKeys reads the keys that a person has chosen, nil when there is no file.
func readKeys(path string) (map[string][]string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	var chosen map[string]keyList
	if err := yaml.Unmarshal(raw, &chosen); err != nil {
		return nil, fmt.Errorf("read the keys in %s: %w", path, err)
	}
	all := map[string][]string{}
	for name, keys := range chosen {
		all[name] = keys
	}
	return all, nil
}
