package live

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sahilm/fuzzy"

	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/tools/search"
)

const (
	// filesFresh is how long a list of files is used again: a person types several letters in that time.
	filesFresh = 5 * time.Second
	// filesTime bounds the making of a list. What was found by then is offered.
	filesTime = 3 * time.Second
	// maxOffered bounds the paths of one answer.
	maxOffered = 200
)

// files is the list of a session's files that was made last.
type files struct {
	mu    sync.Mutex // held while the list is made: others wait for it
	paths []string   // folders end with a slash
	made  time.Time
}

// Files returns the paths of the session's folder that fit a query, best first. Ignored files are left out.
func (s *Session) Files(ctx context.Context, p protocol.FilesParams) (protocol.FilesResult, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return protocol.FilesResult{}, err
	}
	paths, err := f.paths(ctx)
	if err != nil {
		return protocol.FilesResult{}, err
	}
	limit := cmp.Or(min(max(p.Limit, 0), maxOffered), 50)
	result := protocol.FilesResult{Paths: []string{}}
	if p.Query == "" {
		// The top of the folder: what is deeper is found by typing.
		for _, name := range paths {
			if !strings.Contains(strings.TrimSuffix(name, "/"), "/") && len(result.Paths) < limit {
				result.Paths = append(result.Paths, name)
			}
		}
		return result, nil
	}
	for _, m := range fuzzy.Find(p.Query, paths) {
		if len(result.Paths) == limit || ctx.Err() != nil {
			break
		}
		result.Paths = append(result.Paths, m.Str)
	}
	return result, nil
}

// paths returns the files and folders of the session's folder.
func (f *feed) paths(ctx context.Context) ([]string, error) {
	w := f.agent.Workspace()
	if w == nil {
		return nil, errors.New("list files: the session has no folder")
	}
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	if f.files.paths != nil && time.Since(f.files.made) < filesFresh {
		return f.files.paths, nil
	}
	bounded, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	names, _, err := search.Files(bounded, w)
	if err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for _, name := range names {
		for dir := path.Dir(name); dir != "." && !folders[dir+"/"]; dir = path.Dir(dir) {
			folders[dir+"/"] = true
		}
	}
	for dir := range folders {
		names = append(names, dir)
	}
	slices.Sort(names)
	f.files.paths, f.files.made = names, time.Now()
	return names, nil
}
