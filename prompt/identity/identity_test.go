package identity

import (
	"context"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
)

func TestTheSectionIsBaseFirstAndSmall(t *testing.T) {
	tree := plugin.New(nil)
	_, err := tree.Root().Mount("prompt-identity", nil, func(ctx context.Context, s *plugin.Scope) error {
		return Plugin.Start(ctx, s, struct{}{})
	})
	if err == nil {
		err = tree.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	section, ok := prompt.Sections.Get(tree.Root(), "identity")
	if !ok || !section.Base || section.Order != -100 {
		t.Errorf("the section is %+v", section)
	}
	text, err := section.Text(context.Background(), prompt.Input{})
	if err != nil || len(text) < 500 || len(text) > 2048 {
		t.Errorf("the text has %d bytes, %v; the first request has room for 2048", len(text), err)
	}
	if err := tree.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, ok := prompt.Sections.Get(tree.Root(), "identity"); ok {
		t.Error("the section outlives its plugin")
	}
}
