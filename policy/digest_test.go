package policy_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// folder is a workspace of which only the names matter.
type folder struct {
	workspace.Workspace
	roots []string
}

func (f folder) Dir() string     { return f.roots[0] }
func (f folder) Roots() []string { return f.roots }

// subject is everything that a digest names, as one list of texts in groups.
type subject [5][]string // tool and arguments, folder and roots, environment, mode and rules

func (s subject) digest() [32]byte {
	c := &tool.Call{Name: s[0][0], Arguments: []byte(s[1][0]), Workspace: folder{roots: s[2]}}
	return policy.Digest(c, s[3], s[4]...)
}

// What is allowed is exactly what was asked about: another byte anywhere, or the same bytes cut in another
// way, is another digest, so that it has to be asked about again.
func TestTrust_P05_AnyOtherByteIsAnotherDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 1, 12)
		texts := func(least int) *rapid.Generator[[]string] {
			return rapid.Custom(func(t *rapid.T) []string {
				var all []string
				for range rapid.IntRange(least, 3).Draw(t, "texts") {
					all = append(all, string(text.Draw(t, "text")))
				}
				return all
			})
		}
		one := subject{{string(text.Draw(t, "tool"))}, {string(text.Draw(t, "arguments"))}, texts(1).Draw(t, "roots"), texts(1).Draw(t, "env"), texts(1).Draw(t, "policy")}
		other := one
		for i := range other {
			other[i] = slices.Clone(one[i])
		}
		if one.digest() != other.digest() {
			t.Fatal("the same call has two digests")
		}
		group := rapid.IntRange(0, len(one)-1).Draw(t, "group")
		at := rapid.IntRange(0, len(one[group])-1).Draw(t, "text")
		switch changed := []byte(one[group][at]); rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			changed[rapid.IntRange(0, len(changed)-1).Draw(t, "byte")] ^= rapid.ByteRange(1, 255).Draw(t, "by")
			other[group][at] = string(changed)
		case 1:
			other[group][at] += string(rapid.Byte().Draw(t, "more"))
		case 2:
			other[group][at] = other[group][at][1:]
		case 3: // the last text of a list goes to the next one
			if group < 2 || group == 4 || len(one[group]) == 1 {
				return
			}
			last := len(one[group]) - 1
			other[group], other[group+1] = one[group][:last], append([]string{one[group][last]}, one[group+1]...)
		}
		if one.digest() == other.digest() {
			t.Fatalf("%q and %q have one digest", one, other)
		}
	})
}
