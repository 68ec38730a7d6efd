package workspace

import "context"

type hiddenKey struct{}

// WithHidden returns a context in which tools that look into whole folders leave out the files that hides reports, beside
// those that ctx leaves out already. Policies call it, around the body of a call; hides is called from the goroutine of
// that call, with absolute paths.
func WithHidden(ctx context.Context, hides func(path string) bool) context.Context {
	before := Hidden(ctx)
	if before == nil {
		return context.WithValue(ctx, hiddenKey{}, hides)
	}
	return context.WithValue(ctx, hiddenKey{}, func(path string) bool { return before(path) || hides(path) })
}

// Hidden returns what reports the files that a tool leaves out of what it finds in ctx, nil when it leaves out none.
func Hidden(ctx context.Context) func(path string) bool {
	hides, _ := ctx.Value(hiddenKey{}).(func(path string) bool)
	return hides
}
