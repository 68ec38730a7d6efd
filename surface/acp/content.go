package acp

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
)

// blocks turns a prompt into what the model is sent: text as it is, files that came along as text between tags, links as a mention that the
// model can follow with its tools.
func blocks(prompt []protocol.ContentBlock) ([]llm.Block, error) {
	var all []llm.Block
	for i, b := range prompt {
		switch b.Type {
		case "text":
			if b.Text != "" {
				all = append(all, llm.Text(b.Text))
			}
		case "resource_link":
			if b.URI == "" {
				return nil, invalid("part %d of the prompt is a link without a uri", i+1)
			}
			all = append(all, llm.Text("@"+location(b.URI)))
		case "resource":
			switch {
			case b.Resource == nil || b.Resource.URI == "":
				return nil, invalid("part %d of the prompt is a resource without a uri", i+1)
			case b.Resource.Text == nil:
				return nil, invalid("part %d of the prompt, %s, is not text: only text can be embedded", i+1, b.Resource.URI)
			}
			all = append(all, llm.Text(fmt.Sprintf("<file path=%q>\n%s\n</file>", location(b.Resource.URI), strings.TrimSuffix(*b.Resource.Text, "\n"))))
		case "image", "audio":
			return nil, invalid("part %d of the prompt is of the type %s, which is not offered", i+1, b.Type)
		default:
			return nil, invalid("part %d of the prompt has the unknown type %q", i+1, b.Type)
		}
	}
	if len(all) == 0 {
		return nil, invalid("the prompt is empty")
	}
	return all, nil
}

// location is the path of a file: URI, and any other URI as it is.
func location(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return uri
	}
	if u.Fragment != "" {
		return u.Path + "#" + u.Fragment
	}
	return u.Path
}
