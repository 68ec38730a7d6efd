package protocol

import "encoding/json"

// ContentBlock is a part of a prompt or a message. Type says which of the members count: text, image, audio, resource_link, resource.
type ContentBlock struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	Data     string `json:"data,omitempty"` // of an image or audio, base64
	MimeType string `json:"mimeType,omitempty"`

	URI         string `json:"uri,omitempty"` // of a link, or where an image is from
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Size        *int64 `json:"size,omitempty"`

	Resource *Resource `json:"resource,omitempty"`
}

// Resource is a file in a prompt: text, or a blob.
type Resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *string `json:"blob,omitempty"` // base64
}

// Text returns a block of text.
func Text(s string) ContentBlock { return ContentBlock{Type: "text", Text: s} }

// MarshalJSON keeps the members that a type must have, also when they are empty.
func (b ContentBlock) MarshalJSON() ([]byte, error) {
	type plain ContentBlock
	if b.Type == "text" {
		return json.Marshal(struct {
			plain
			Text string `json:"text"`
		}{plain(b), b.Text})
	}
	return json.Marshal(plain(b))
}
