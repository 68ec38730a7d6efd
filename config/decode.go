package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder stores expanded values in config types and reports all that does not fit.
type decoder struct {
	*problems
	*resolver // to clean errors of what may be secret
}

// decode stores a value below the config itself, and asks its Validate method, if it has one. The
// config's own is for [plugin.Definition.Bind] to ask.
func (d *decoder) decode(path string, v *value, dst reflect.Value) {
	before := len(d.list)
	d.store(path, v, dst)
	if len(d.list) > before {
		return
	}
	if valid, ok := dst.Addr().Interface().(interface{ Validate() error }); ok {
		if err := valid.Validate(); err != nil {
			d.refuse(path, v, err)
		}
	}
}

// store stores a value in dst, which holds the defaults. A key that is not written keeps its default;
// a list or map that is written takes the default's place as a whole.
func (d *decoder) store(path string, v *value, dst reflect.Value) {
	t := dst.Type()
	mismatch := func(expected string) {
		d.add(v.at, "%s: expected %s, found %s", path, expected, v.describe())
	}
	switch {
	case t.Kind() == reflect.Pointer:
		if v.kind == null {
			dst.SetZero()
			return
		}
		target := reflect.New(t.Elem())
		if !dst.IsNil() {
			target.Elem().Set(dst.Elem()) // the default is shared by all who get it: never write into it
		}
		d.decode(path, v, target.Elem())
		dst.Set(target)
		return
	case t == durationType:
		duration, err := time.ParseDuration(v.text)
		if v.kind != text || err != nil {
			mismatch(`a duration such as "30s" or "1h30m"`)
			return
		}
		dst.SetInt(int64(duration))
		return
	case isJSON(t):
		d.storeJSON(path, v, dst)
		return
	case isText(t):
		if v.kind != text {
			mismatch("text")
			return
		}
		if err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.text)); err != nil {
			d.refuse(path, v, err)
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if v.kind != mapping {
			mismatch("a map")
			return
		}
		d.storeStruct(path, v, dst)
	case reflect.Map:
		if v.kind != mapping {
			mismatch("a map")
			return
		}
		m := reflect.MakeMapWithSize(t, len(v.fields))
		for _, f := range v.fields {
			element := reflect.New(t.Elem()).Elem()
			d.decode(path+"."+f.key, f.value, element)
			m.SetMapIndex(reflect.ValueOf(f.key).Convert(t.Key()), element)
		}
		dst.Set(m)
	case reflect.Slice:
		if v.kind != list {
			mismatch("a list")
			return
		}
		s := reflect.MakeSlice(t, len(v.items), len(v.items))
		for i, item := range v.items {
			d.decode(fmt.Sprintf("%s[%d]", path, i), item, s.Index(i))
		}
		dst.Set(s)
	case reflect.String:
		if v.kind != text {
			expected := "text"
			if v.kind == boolean || v.kind == integer || v.kind == float {
				expected = "text, in quotes"
			}
			mismatch(expected)
			return
		}
		dst.SetString(v.text)
	case reflect.Bool:
		b, ok := v.bool()
		if !ok {
			mismatch("true or false")
			return
		}
		dst.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, ok := v.int()
		if !ok || dst.OverflowInt(i) {
			mismatch(wholeNumber(t))
			return
		}
		dst.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, ok := v.uint()
		if !ok || dst.OverflowUint(u) {
			mismatch(wholeNumber(t))
			return
		}
		dst.SetUint(u)
	case reflect.Float32, reflect.Float64:
		f, ok := v.float()
		if !ok || dst.OverflowFloat(f) {
			mismatch("a finite number")
			return
		}
		dst.SetFloat(f)
	case reflect.Interface: // of no methods, see isSettable
		if x := v.any(); x != nil {
			dst.Set(reflect.ValueOf(x))
		} else {
			dst.SetZero()
		}
	default:
		d.add(v.at, "%s: a %v cannot be set from a file", path, t)
	}
}

func (d *decoder) storeStruct(path string, v *value, dst reflect.Value) {
	settings := settingsOf(dst.Type())
	for _, f := range v.fields {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key == f.key })
		if i < 0 {
			if len(settings) == 0 {
				d.add(f.at, "%s: unknown key %s: there is nothing to configure here", path, quote(f.key))
				continue
			}
			keys := make([]string, len(settings))
			for i, s := range settings {
				keys[i] = s.key
			}
			d.add(f.at, "%s: unknown key %s%s", path, quote(f.key), suggest(f.key, keys))
			continue
		}
		d.decode(path+"."+f.key, f.value, dst.FieldByIndex(settings[i].index))
	}
}

// storeJSON hands the value to a type that reads itself from JSON.
func (d *decoder) storeJSON(path string, v *value, dst reflect.Value) {
	encoded, err := json.Marshal(v.any())
	if err == nil {
		err = dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(encoded)
	}
	if err != nil {
		d.refuse(path, v, err)
	}
}

// refuse reports the error of a type that reads or checks itself, without what may be secret.
func (d *decoder) refuse(path string, v *value, err error) {
	if v.source != "" {
		d.add(v.at, "%s: %s does not fit here", path, v.describe())
		return
	}
	err = d.clean(err)
	d.addCause(v.at, err, "%s: %v", path, err)
}

// wholeNumber names the range of an integer type.
func wholeNumber(t reflect.Type) string {
	bits := t.Bits()
	switch {
	case t.Kind() >= reflect.Uint && bits == 64:
		return "a whole number from 0"
	case t.Kind() >= reflect.Uint:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<bits-1)
	case bits == 64:
		return "a whole number"
	default:
		return fmt.Sprintf("a whole number from %d to %d", -int64(1)<<(bits-1), int64(1)<<(bits-1)-1)
	}
}

func (v *value) bool() (b, ok bool) {
	if v.kind != boolean && !v.loose {
		return false, false
	}
	switch v.text {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// digits is the text of a number as strconv reads it, with the base that its prefix may give;
// a variable's 010 is ten, as people mean it, a file's is eight, as YAML has it.
func (v *value) digits() (s string, base int) {
	if v.loose {
		return strings.TrimSpace(v.text), 10
	}
	return v.text, 0
}

func (v *value) int() (int64, bool) {
	if v.kind != integer && !v.loose {
		return 0, false
	}
	s, base := v.digits()
	i, err := strconv.ParseInt(s, base, 64)
	return i, err == nil
}

func (v *value) uint() (uint64, bool) {
	if v.kind != integer && !v.loose {
		return 0, false
	}
	s, base := v.digits()
	u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), base, 64)
	return u, err == nil
}

func (v *value) float() (float64, bool) {
	if v.kind == integer {
		if i, ok := v.int(); ok {
			return float64(i), true
		}
	}
	if v.kind != integer && v.kind != float && !v.loose {
		return 0, false
	}
	s, _ := v.digits()
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// any returns the value as encoding/json would decode it, but for whole numbers, which stay whole.
func (v *value) any() any {
	switch v.kind {
	case null:
		return nil
	case boolean:
		b, _ := v.bool()
		return b
	case integer, float:
		if i, ok := v.int(); ok {
			return i
		}
		if u, ok := v.uint(); ok {
			return u
		}
		if f, ok := v.float(); ok {
			return f
		}
		return v.text // an infinity, which JSON has not
	case text:
		return v.text
	case list:
		all := make([]any, len(v.items))
		for i, item := range v.items {
			all[i] = item.any()
		}
		return all
	case mapping:
		all := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			all[f.key] = f.value.any()
		}
		return all
	}
	return nil
}
