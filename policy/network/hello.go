package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	recordHandshake = 22
	maxRecord       = 1 << 14
	maxHello        = 64 << 10
)

var errHello = errors.New("it is no ClientHello")

// readHello reads the first message of TLS, which may be cut into records anywhere, and returns
// all that it has read, and the name that the message asks for: "" when it asks for none.
func readHello(r io.Reader) (read *bytes.Buffer, name string, err error) {
	read = &bytes.Buffer{}
	var message []byte
	for records := 0; ; records++ {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return read, "", fmt.Errorf("it ends early: %w", err)
		}
		length := int(binary.BigEndian.Uint16(head[3:]))
		if head[0] != recordHandshake || head[1] != 3 || length == 0 || length > maxRecord {
			return read, "", errHello
		}
		read.Write(head[:])
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return read, "", fmt.Errorf("it ends early: %w", err)
		}
		read.Write(body)
		message = append(message, body...)
		if len(message) < 4 {
			if records >= 4 {
				return read, "", errHello
			}
			continue
		}
		size := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		if message[0] != 1 || size > maxHello || read.Len() > 2*maxHello {
			return read, "", errHello
		}
		if len(message) > size {
			return read, "", errors.New("more follows it before an answer")
		}
		if len(message) == size {
			name, err = helloName(message[4:])
			return read, name, err
		}
	}
}

// helloName finds the server_name in the body of a ClientHello.
func helloName(body []byte) (string, error) {
	p := parser{rest: body}
	p.skip(2 + 32)      // version, random
	p.skip(p.number(1)) // session
	p.skip(p.number(2)) // cipher suites
	p.skip(p.number(1)) // compression
	if p.bad {
		return "", errHello
	}
	if len(p.rest) == 0 {
		return "", nil // a version without extensions
	}
	extensions := parser{rest: p.take(p.number(2))}
	if p.bad || len(p.rest) > 0 {
		return "", errHello
	}
	name, found := "", false
	for len(extensions.rest) > 0 {
		kind := extensions.number(2)
		data := parser{rest: extensions.take(extensions.number(2))}
		if extensions.bad {
			return "", errHello
		}
		if kind != 0 {
			continue
		}
		if found {
			return "", errors.New("it asks for two names")
		}
		found = true
		names := parser{rest: data.take(data.number(2))}
		sort := names.number(1)
		name = string(names.take(names.number(2)))
		if data.bad || len(data.rest) > 0 || names.bad || len(names.rest) > 0 || sort != 0 || name == "" {
			return "", errors.New("the name that it asks for is not readable")
		}
	}
	return name, nil
}

// parser reads from the front of bytes; once they are too few it is bad and reads nothing.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) take(n int) []byte {
	if p.bad || n > len(p.rest) {
		p.bad = true
		return nil
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *parser) skip(n int) { p.take(n) }

func (p *parser) number(size int) (n int) {
	for _, b := range p.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

func printable(name string) string { return strconv.QuoteToASCII(name[:min(len(name), 100)]) }
