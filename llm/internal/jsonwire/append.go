package jsonwire

import "unicode/utf8"

// AppendString appends s as a JSON string with its quotes; see [AppendText].
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = AppendText(dst, s)
	return append(dst, '"')
}

// AppendText appends s as it stands between the quotes of a JSON string. It
// escapes only what JSON demands, so that prompts stay short, and writes U+FFFD
// for each byte that is not UTF-8.
func AppendText(dst []byte, s string) []byte {
	valid := utf8.ValidString(s)
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && (valid || c < utf8.RuneSelf) {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if c >= utf8.RuneSelf {
				dst = utf8.AppendRune(dst, utf8.RuneError)
			} else {
				const hex = "0123456789abcdef"
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}
