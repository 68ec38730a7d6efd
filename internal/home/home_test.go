package home

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, goos string
		env        map[string]string
		want       Dirs
		err        string
	}{
		{
			name: "convention", goos: "linux",
			env:  map[string]string{"HOME": "/home/a"},
			want: Dirs{"/home/a/.config/dsh", "/home/a/.local/state/dsh", "/home/a/.cache/dsh"},
		}, {
			name: "macOS follows the same convention", goos: "darwin",
			env:  map[string]string{"HOME": "/Users/a"},
			want: Dirs{"/Users/a/.config/dsh", "/Users/a/.local/state/dsh", "/Users/a/.cache/dsh"},
		}, {
			name: "windows", goos: "windows",
			env:  map[string]string{"APPDATA": `C:\R`, "LOCALAPPDATA": `C:\L`},
			want: Dirs{`C:\R/dsh`, `C:\L/dsh/state`, `C:\L/dsh/cache`},
		}, {
			name: "xdg", goos: "linux",
			env:  map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k"},
			want: Dirs{"/c/dsh", "/s/dsh", "/k/dsh"},
		}, {
			name: "a relative xdg folder is ignored", goos: "linux",
			env:  map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "c"},
			want: Dirs{"/h/.config/dsh", "/h/.local/state/dsh", "/h/.cache/dsh"},
		}, {
			name: "xdg needs no home", goos: "linux",
			env:  map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k"},
			want: Dirs{"/c/dsh", "/s/dsh", "/k/dsh"},
		}, {
			name: "DSH_HOME wins over xdg and needs no home", goos: "linux",
			env:  map[string]string{"DSH_HOME": "/d/", "XDG_CONFIG_HOME": "/c"},
			want: Dirs{"/d/config", "/d/state", "/d/cache"},
		}, {
			name: "DSH_HOME on windows", goos: "windows",
			env:  map[string]string{"DSH_HOME": `D:\dsh`},
			want: Dirs{`D:\dsh/config`, `D:\dsh/state`, `D:\dsh/cache`},
		}, {
			name: "one folder each", goos: "linux",
			env:  map[string]string{"DSH_HOME": "/d", "DSH_CONFIG": "/c", "DSH_STATE": "/s"},
			want: Dirs{"/c", "/s", "/d/cache"},
		}, {
			name: "tilde", goos: "linux",
			env:  map[string]string{"HOME": "/h", "DSH_HOME": "~/x", "DSH_STATE": "~"},
			want: Dirs{"/h/x/config", "/h", "/h/x/cache"},
		}, {
			name: "blank is unset", goos: "linux",
			env:  map[string]string{"HOME": "/h", "DSH_HOME": " ", "DSH_CONFIG": ""},
			want: Dirs{"/h/.config/dsh", "/h/.local/state/dsh", "/h/.cache/dsh"},
		}, {
			name: "relative DSH_HOME", goos: "linux",
			env: map[string]string{"HOME": "/h", "DSH_HOME": "here"},
			err: `find dsh's folders: DSH_HOME is "here": it must be an absolute path`,
		}, {
			name: "relative DSH_CONFIG", goos: "windows",
			env: map[string]string{"DSH_HOME": `D:\dsh`, "DSH_CONFIG": `\here`},
			err: `find dsh's folders: DSH_CONFIG is "\\here": it must be an absolute path`,
		}, {
			name: "nothing set", goos: "linux",
			err: "find dsh's folders: HOME is not set: set it, or DSH_HOME to a folder for all of dsh's files",
		}, {
			name: "nothing set on windows", goos: "windows",
			err: "find dsh's folders: APPDATA is not set: set it, or DSH_HOME to a folder for all of dsh's files",
		}, {
			name: "tilde without home", goos: "linux",
			env: map[string]string{"DSH_HOME": "~/x"},
			err: "expand ~ in DSH_HOME: find dsh's folders: HOME is not set: set it, or DSH_HOME to a folder for all of dsh's files",
		}, {
			name: "relative HOME", goos: "linux",
			env: map[string]string{"HOME": "h"},
			err: `find dsh's folders: HOME is "h": it must be an absolute path`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := find(c.goos, func(name string) string { return c.env[name] })
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// The folders of the machine the test runs on are found from its real environment.
func TestFindHere(t *testing.T) {
	root := t.TempDir()
	t.Setenv("DSH_HOME", root)
	t.Setenv("DSH_CONFIG", "")
	t.Setenv("DSH_STATE", "")
	dirs, err := Find(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dirs.Config, dirs.State, dirs.Cache} {
		if !strings.HasPrefix(dir, root+string(os.PathSeparator)) {
			t.Errorf("%s is not below %s", dir, root)
		}
	}
}
