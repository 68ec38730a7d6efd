package config

// A value is a node of a layer or of the composed configuration. It does not change once it is
// made: merging makes new ones and shares what stays.
type value struct {
	kind   kind
	text   string // of a scalar, as it was written, without quotes
	items  []*value
	fields []field
	at     Position
	layer  *Layer
	mark   mark // obeyed by merging, and without meaning afterwards

	// Set on scalars whose text came from references.
	source string // the text with its references, to show in place of what may be secret
	loose  bool   // the text is one reference and nothing else, so it may be a number or a bool as well
}

// field is one key of a map, in the order written.
type field struct {
	key   string
	at    Position
	value *value
}

func (v *value) index(key string) int {
	for i := range v.fields {
		if v.fields[i].key == key {
			return i
		}
	}
	return -1
}

// get returns the value of key in a map, or nil.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	if i := v.index(key); i >= 0 {
		return v.fields[i].value
	}
	return nil
}

type kind int

const (
	null kind = iota
	boolean
	integer
	float
	text
	list
	mapping
)

// describe names what was found where something else was expected.
func (v *value) describe() string {
	if v.mark == remove {
		return removeTag
	}
	if v.source != "" {
		return "the value of " + quote(v.source)
	}
	switch v.kind {
	case null:
		return "nothing"
	case boolean:
		return v.text
	case integer, float:
		return "the number " + v.text
	case text:
		return "the text " + quote(v.text)
	case list:
		return "a list"
	case mapping:
		return "a map"
	}
	return "an unknown value"
}

// mark is what a YAML tag says about merging.
type mark int

const (
	merge mark = iota
	replace
	remove
)

const (
	replaceTag = "!replace"
	removeTag  = "!remove"
)
