package tui

import (
	"strings"
	"testing"
)

func TestKeysAreChosen(t *testing.T) {
	bound, err := bind(map[string][]string{"send-later": {"ctrl+r"}, "history": {"f3", "alt+h"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"ctrl+r": "send-later", "f3": "history", "alt+h": "history", "enter": "send", "ctrl+o": "details"} {
		if got := bound[key].Name; got != want {
			t.Errorf("%s does %q, want %s", key, got, want)
		}
	}
	if a, ok := bound["alt+enter"]; ok {
		t.Errorf("alt+enter still does %s", a.Name)
	}
}

func TestWrongKeysAreNamed(t *testing.T) {
	_, err := bind(map[string][]string{"sned": {"ctrl+s"}, "send": {"entr"}, "redraw": {"crtl+l"}, "details": {"f5"}, "thought": {"f5"}})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, part := range []string{`no action "sned"; did you mean send?`, `no key "entr"; did you mean enter?`, `"crtl" is none of ctrl`, "f5 is chosen for details and for thought"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q:\n%v", part, err)
		}
	}
}

// TestNoKeyDoesTwoThings also shows that every key that is bound is one that a keyboard sends.
func TestNoKeyDoesTwoThings(t *testing.T) {
	seen := map[string]string{}
	for _, a := range Actions() {
		if a.Doc == "" || len(a.Keys) == 0 {
			t.Errorf("%s has no words or no key", a.Name)
		}
		for _, key := range a.Keys {
			if other := seen[key]; other != "" {
				t.Errorf("%s does %s and %s", key, other, a.Name)
			}
			seen[key] = a.Name
			if err := checkKey(key); err != nil {
				t.Error(err)
			}
		}
	}
	for _, key := range []string{"+", "ctrl++", "ä", "shift+tab", "alt+f12"} {
		if err := checkKey(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
