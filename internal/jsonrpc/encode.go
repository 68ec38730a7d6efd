package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// encode is [json.Marshal] without the escapes for HTML.
func encode(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 && json.Valid(raw) && !bytes.ContainsAny(raw, "\r\n") {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// request builds a request, or a notification when id is "".
func request(id ID, method string, params any) ([]byte, error) {
	name, err := encode(method)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0"`...)
	if id != "" {
		b = append(append(b, `,"id":`...), id...)
	}
	b = append(append(b, `,"method":`...), name...)
	if params != nil {
		raw, err := encode(params)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"params":`...), raw...)
	}
	return append(b, '}'), nil
}

// response builds an answer; id "" stands for null.
func response(id ID, result any, failure *Error) ([]byte, error) {
	if id == "" {
		id = "null"
	}
	member, v := `,"result":`, result
	if failure != nil {
		member, v = `,"error":`, failure
	}
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(raw)+len(id)+40)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(b, member...), raw...)
	return append(b, '}'), nil
}
