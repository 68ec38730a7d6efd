package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// A setting is a key of a config type: an exported field, named by its json tag. Decoding, schemas
// and the reference page all read types through settingsOf, so they agree.
type setting struct {
	key   string
	doc   string
	index []int
	typ   reflect.Type
}

// settingsOf lists the settings of a struct type in the order of its fields. The fields of an embedded
// struct without a name of its own count as the outer one's.
func settingsOf(t reflect.Type) []setting {
	var all []setting
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			for _, inner := range settingsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				all = append(all, inner)
			}
			continue
		}
		if !f.IsExported() || !isSettable(f.Type) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		all = append(all, setting{name, f.Tag.Get("doc"), []int{i}, f.Type})
	}
	return all
}

var (
	durationType        = reflect.TypeFor[time.Duration]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isSettable says whether a value written in a file can become a t at all: functions, channels and
// the like belong to a plugin's Go caller.
func isSettable(t reflect.Type) bool {
	if isJSON(t) || isText(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return isSettable(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && isSettable(t.Elem())
	case reflect.Interface:
		return t.NumMethod() == 0
	case reflect.Bool, reflect.String, reflect.Struct, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Invalid, reflect.Uintptr, reflect.Complex64, reflect.Complex128, reflect.Array, reflect.Chan, reflect.Func, reflect.UnsafePointer:
	}
	return false
}

// isJSON says whether a t reads itself from JSON, isText whether it reads itself from text.
func isJSON(t reflect.Type) bool { return reflect.PointerTo(t).Implements(jsonUnmarshalerType) }
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshalerType) }
