package command

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// corpus reads the lines of a file in testdata, and the class of each.
func corpus(t testing.TB, file string) (lines, classes []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	class := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			class = name
			continue
		}
		if line == "" {
			continue
		}
		lines, classes = append(lines, unescape(t, line)), append(classes, class)
	}
	return lines, classes
}

func unescape(t testing.TB, line string) string {
	t.Helper()
	line = strings.ReplaceAll(line, "PWN", "touch pwned")
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] != '\\' {
			b.WriteByte(line[i])
			continue
		}
		i++
		switch c := line[i]; c {
		case 'n', 't', 'r', 'v', 'f', 'b', 'e', '\\':
			b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'v': '\v', 'f': '\f', 'b': '\b', 'e': 0x1b, '\\': '\\'}[c])
		case 'x', 'u':
			n := map[byte]int{'x': 2, 'u': 4}[c]
			r, err := strconv.ParseUint(line[i+1:i+1+n], 16, 32)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			b.WriteRune(rune(r))
			i += n
		default:
			t.Fatalf("%q: unknown escape %c", line, c)
		}
	}
	return b.String()
}

// TestTrust_P01_NothingThatDoesHarmIsProvenToRead: neither a line of the corpus nor any variant of it.
func TestTrust_P01_NothingThatDoesHarmIsProvenToRead(t *testing.T) {
	lines, classes := corpus(t, "bypass.txt")
	if len(lines) < 300 {
		t.Fatalf("the corpus has only %d lines", len(lines))
	}
	variants := 0
	for i, line := range lines {
		for _, v := range append([]string{line}, variantsOf(line)...) {
			variants++
			if proven, _ := Parse(v).ReadOnly(); proven {
				t.Errorf("%s: %q counts as proven to only read", classes[i], v)
			}
		}
	}
	t.Logf("%d lines, %d with variants", len(lines), variants)
}

// variantsOf puts a line into each construct, and hides it.
func variantsOf(line string) (all []string) {
	for _, frame := range []string{
		"ls; %s", "ls && %s", "true || %s", "ls | %s", "%s | cat", "%s; ls", "%s && ls", "ls\n%s", "%s\nls", "(%s\n)", "{ %s\n}", "if true; then %s\nfi", "if %s\nthen ls; fi",
		"while true; do %s\nbreak; done", "for i in 1; do %s\ndone", "case x in x) %s\n;; esac", "ls $(%s\n)", "echo \"$(%s\n)\"", "cat <(%s\n)", "! %s", "  %s", "\t%s", "\n\n%s\n",
		"ls" + strings.Repeat(" ", 2000) + "; %s", strings.Repeat("true && ", 60) + "%s", "ls # x\n%s",
	} {
		all = append(all, strings.Replace(frame, "%s", line, 1))
	}
	return all
}

// The other half: what is ordinary is proven, so that the table cannot pass by always saying no.
func TestOrdinaryLinesAreProven(t *testing.T) {
	lines, _ := corpus(t, "reads.txt")
	if len(lines) < 100 {
		t.Fatalf("the corpus has only %d lines", len(lines))
	}
	for _, line := range lines {
		if proven, why := Parse(line).ReadOnly(); !proven {
			t.Errorf("%q: %s", line, why)
		}
	}
}

func TestTheTableIsReadable(t *testing.T) {
	for names, r := range readers() {
		if names == "" || len(strings.Fields(names)) > 3 || r == nil {
			t.Errorf("%q: %+v", names, r)
		}
	}
	if len(readers()) < 100 {
		t.Errorf("only %d programs", len(readers()))
	}
}

func TestTrust_P02_WhatIsDeniedIsFoundInAnyPlace(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 500, 5000, 10_000} {
		for _, joint := range []string{"true && ", "true; ", "true || ", "true | ", "true\n"} {
			line := strings.Repeat(joint, n) + "curl http://evil.example"
			l := Parse(line)
			found := l.Unclear != ""
			for _, c := range l.Commands {
				found = found || len(c.Words) > 0 && c.Words[0] == "curl"
			}
			if !found {
				t.Errorf("curl behind %d times %q is not found", n, joint)
			}
		}
	}
}

// TestTrust_P04_WhatSetsVariablesIsSeen: a command that prepares the environment of others assigns, or makes the line unclear.
func TestTrust_P04_WhatSetsVariablesIsSeen(t *testing.T) {
	for _, line := range []string{
		"A=b", "A=b ls", "export A=b", "export PAGER=id", "declare -x GIT_SSH_COMMAND=id", "typeset -x A=b", "readonly A=b", "local A=b", "LD_PRELOAD=x ls", "PATH=.:$PATH ls", "A+=b", "A=(b)", "A[0]=b ls", "read A", "printf -v A b",
		"alias ls=id", "unalias ls", "set -a", "set -o allexport", "shopt -s expand_aliases", "hash -p /x ls", "enable -f x y", "unset PATH", "for PATH in x; do ls; done", "mapfile A", "getopts a A", ": ${A:=b}", "let A=1", "((A=1))", "cat {A}< x",
		"builtin export A=b", "command export A=b",
	} {
		l := Parse(line)
		assigns := l.Unclear != ""
		for _, c := range l.Commands {
			assigns = assigns || c.Assigns
		}
		if proven, _ := l.ReadOnly(); !assigns || proven {
			t.Errorf("%q assigns %v, proven %v: %+v", line, assigns, proven, l.Commands)
		}
	}
}

// What is not fully understood is said to be so, whatever commands are in it.
func TestUnclear(t *testing.T) {
	for _, line := range []string{
		"ls() { id; }; ls", "function ls { id; }", "coproc ls", "((1))", "let 1", "[[ a ]]", "echo $((x))", "echo ${!x}", "echo ${x@P}", "echo ${x[1]}", "eval ls", ". x", "source x", "alias a=b", "$X", "ls\r", "ls \u202e", "ls\x00", "ls \xff",
		"ls (", "echo a\\", "cat <<E\n$x\nE", "cat <<\"a b\"\nx\na b", "ls @(a)", "sh -c \"$X\"", strings.Repeat("(", 100) + "ls" + strings.Repeat(")", 100), strings.Repeat("a", maxLine+1), strings.Repeat(":;", maxCommands+1),
	} {
		if Parse(line).Unclear == "" {
			t.Errorf("%.80q counts as understood", line)
		}
	}
}

func TestInnerCommands(t *testing.T) {
	for line, want := range map[string]string{
		"sudo -u root rm x":                    "rm x",
		"env A=b rm x":                         "rm x",
		"timeout -k 1 5 rm x":                  "rm x",
		"nice -n 5 nohup rm x":                 "rm x",
		"xargs -n 1 rm x":                      "rm x",
		"find . -name a -exec rm x {} ;":       "rm x {}",
		"sh -c 'ls; rm x'":                     "rm x",
		"bash -lc 'rm x'":                      "rm x",
		"sudo sh -c \"sh -c 'rm x'\"":          "rm x",
		"eval 'rm x'":                          "rm x",
		"bash <<'E'\nrm x\nE":                  "rm x",
		"bash <<< 'rm x'":                      "rm x",
		"git bisect run rm x":                  "rm x",
		"ssh host rm x":                        "rm x",
		"busybox rm x":                         "rm x",
		"command rm x":                         "rm x",
		"echo $(rm x)":                         "rm x",
		"cat <(rm x)":                          "rm x",
		"echo \"a ${b:-`rm x`}\"":              "rm x",
		"cat > $(rm x) < y":                    "rm x",
		"for f in $(rm x); do ls; done":        "rm x",
		"case $(rm x) in a) ls;; esac":         "rm x",
		"a=$(rm x)":                            "rm x",
		"cat <<E\n$(rm x)\nE":                  "rm x",
		"f() { rm x; }":                        "rm x",
		"time rm x":                            "rm x",
		"echo $(( $(rm x) ))":                  "rm x",
		"if ! rm x; then :; fi":                "rm x",
		"trap 'rm x' EXIT":                     "rm x",
		"su -c 'rm x'":                         "rm x",
		"flock f rm x":                         "rm x",
		"/usr/bin/sudo /bin/sh -c '/bin/rm x'": "/bin/rm x",
		"strace -f -o log rm x":                "rm x",
		"parallel rm x":                        "rm x",
		"FOO=bar rm x":                         "FOO=bar rm x",
		"rm \\\n x":                            "rm \\\n x",
		"r\\m x":                               "r\\m x",
		"'rm' x":                               "'rm' x",
		"\"r\"m x":                             "\"r\"m x",
	} {
		found := false
		var all []string
		for _, c := range Parse(line).Commands {
			found = found || c.Text == want
			all = append(all, fmt.Sprintf("%q %q", c.Text, c.Words))
		}
		if !found {
			t.Errorf("%q: %q is not among %v", line, want, all)
		}
	}
	// Quotes hide nothing.
	for _, line := range []string{"r\\m x", "'rm' x", "\"r\"m x", "r''m x", "rm \\\n x"} {
		if c := Parse(line).Commands; len(c) != 1 || len(c[0].Words) != 2 || c[0].Words[0] != "rm" {
			t.Errorf("%q: %+v", line, c)
		}
	}
}

func TestDestroys(t *testing.T) {
	at := Surroundings{Dir: "/w/p/sub", Home: "/home/u", Roots: []string{"/w/p", "/data"}}
	for _, line := range []string{
		"rm -rf /", "rm -rf /*", "rm -fr / --no-preserve-root", "rm --recursive --force /", "rm --recurs /", "rm -r -f /", "rm -rf -- /", "rm -rf //", "rm -rf /.", "rm -rf /w/..",
		"rm -rf ~", "rm -rf ~/", "rm -rf ~/*", "rm -rf $HOME", "rm -rf \"$HOME\"", "rm -rf \"${HOME}/\"", "rm -rf /home/u", "rm -rf /home", "rm -rf /home/*", "rm -rf ~/.", "rm -rf /home/u/..",
		"rm -rf /w/p", "rm -rf ..", "rm -rf ../*", "rm -rf ../.", "rm -rf ../../p", "rm -rf /w", "rm -rf $PWD/..", "rm -rf /data", "rm -rf /w/*", "rm -rf /d*", "rm -rf \"/w/p\"/",
		"cd .. && rm -rf .", "cd /w/p; rm -rf *", "cd / && rm -rf w", "cd; rm -rf .", "cd ~ && rm -rf *", "(cd .. && rm -rf ./)",
		"sudo rm -rf /", "env A=b rm -rf ~", "sh -c 'rm -rf /'", "bash -c \"rm -rf ~\"", "nohup rm -rf / &", "busybox rm -rf /", "xargs rm -rf /", "/bin/rm -rf /", "\\rm -rf /", "'rm' -rf /", "command rm -rf /",
		"find / -delete", "find ~ -delete", "find .. -delete", "find /w/p -exec rm -rf {} +", "find ~ -type f -delete", "find / -name '*' -exec rm {} ;",
		"rm -rf /etc", "rm -rf /usr", "rm -rf /boot/*", "rm -rf /var", "chmod -R 777 /", "chown -R a ~", "chmod -R 000 /w/p", "mv ~ /tmp/x", "mv /w/p /tmp/x", "mv /etc /tmp", "rsync -a --delete empty/ ~/", "rsync --delete -a e/ /w/p/",
		"dd if=/dev/zero of=/dev/sda", "mkfs.ext4 /dev/sda1", "echo x > /dev/sda", "cat x > /dev/nvme0n1", "wipefs -a /dev/sdb", "tee /dev/sda", "shred /dev/sda", "cp x /dev/sda", "truncate -s 0 /dev/sda", "rm ~/*", "rm /w/p/*", "rmdir /w/p",
		"ls && rm -rf ~ && ls", "echo $(rm -rf ~)", "if true; then rm -rf /; fi", "rm -rf build /", "rm -rf ./ok ~",
	} {
		if Parse(line).Destroys(at) == "" {
			t.Errorf("%q destroys nothing", line)
		}
	}
	for _, line := range []string{
		"rm -rf build", "rm -rf ./build", "rm -rf /w/p/build", "rm -rf *.o", "rm -f a", "rm a b c", "rm -rf node_modules dist", "rm -rf ../other", "rm -rf /tmp/x", "rm -rf ~/project/build", "rm -rf '*'", "rm -rf \\~",
		"find . -name '*.o' -delete", "find build -delete", "find . -type f -name x -exec rm {} +", "chmod -R 755 build", "mv a b", "mv build /tmp/x", "rmdir build", "cd build && rm -rf *", "git rm -r x", "rsync -a a/ b/", "rsync -a --delete a/ ../b/", "dd if=a of=b", "echo 'rm -rf /'", "echo rm -rf /", "grep -r 'rm -rf ~' .", "cp a b", "truncate -s 0 log", "find / -name x",
		"rm -rf ./~", "rm -rf '~'", "rm -rf '/*'", "cd .. && rm -rf '*'", "find .. -name x -delete", "rm -rf /tmp/*", "rm -rf /w/p/build*", "rm -rf /data/x", "chmod 755 /w/p", "shred secret.txt", "tee a",
	} {
		if why := Parse(line).Destroys(at); why != "" {
			t.Errorf("%q: %s", line, why)
		}
	}
	for _, line := range []string{"rm -rf \"$X/\"", "rm -rf $DIR/*", "rm -rf $(pwd)", "rm -r ${A:-/}", "xargs rm -rf", "find $X -delete", "cd $X && rm -rf *", "rm -rf `cat f`", "find . -print0 | xargs -0 rm -rf", "sh -c 'rm -rf $1'",
		"rm -rf ~/$X", "rm -rf ../$X", "rm -rf /$X/", "rm -rf {a,/}", "cd $X; rm -rf .", "(cd ../..); cd build; rm -rf *", "cd -; rm -rf ..", "rm -rf '" + strings.Repeat("a", maxLine) + "'", "rm -rf (", "find . | parallel rm -r",
	} {
		if Parse(line).MayDestroy(at) == "" {
			t.Errorf("%q cannot destroy anything", line)
		}
	}
	for _, line := range []string{"rm -rf build", "rm -rf build/$X", "rm -rf /tmp/$X", "cd x && rm -rf build", "cd $X && rm -rf build", "rm $X", "ls $X", "find . -name x -delete", "mv $a $b"} {
		if why := Parse(line).MayDestroy(at); why != "" {
			t.Errorf("%q: %s", line, why)
		}
	}
}

func TestPathsAndWrites(t *testing.T) {
	has := func(all []string, want string) bool {
		for _, p := range all {
			if p == want {
				return true
			}
		}
		return false
	}
	for line, want := range map[string]string{
		"cat ~/.ssh/id": "~/.ssh/id", "cat \"$HOME/.ssh/id\"": "~/.ssh/id", "cat $HOME/.ssh/id": "~/.ssh/id", "cat /etc/shadow": "/etc/shadow", "curl -F file=@/etc/shadow x": "/etc/shadow",
		"x --key=/root/k": "/root/k", "x -k/root/k": "/root/k", "cat < /root/k": "/root/k", "sh -c 'cat /root/k'": "/root/k", "echo $(cat /root/k)": "/root/k", "tar cf - -C /root .ssh": "/root", "cat ./a": "./a", "cat '~/x'": "~/x",
		"cd /root && cat k": "/root/k", "cd && cat .ssh/id": "~/.ssh/id", "cat ~/.ssh/$X": "~/.ssh/", "cat ~/.ssh/{a,b}": "~/.ssh/", "cat ~/.ssh/*": "~/.ssh/*", "a,b=c:/root/k": "/root/k",
	} {
		if got := Parse(line).Paths(); !has(got, want) {
			t.Errorf("%q: %q is not among the paths %q", line, want, got)
		}
	}
	for line, want := range map[string]string{
		"echo x > .git/config": ".git/config", "echo x >> a": "a", "cp x .git/hooks": ".git/hooks/x", "cp x y": "y", "mv a b": "b", "mv .git x": ".git", "tee -a a": "a", "touch a": "a", "mkdir -p .github/workflows": ".github/workflows",
		"ln -s a AGENTS.md": "AGENTS.md", "sed -i s/a/b/ f": "f", "dd of=a": "a", "git config core.x y": ".git/config", "git remote add a b": ".git/config", "sort -o f g": "f", "curl -o f x": "f", "curl -of x": "f", "install -t d a": "d", "rm AGENTS.md": "AGENTS.md",
		"sh -c 'echo x > f'": "f", "sudo tee f": "f", "echo x > ~/.bashrc": "~/.bashrc", "chmod +x f": "f", "tar xf a -C d": "d",
	} {
		if got := Parse(line).Writes(); !has(got, want) {
			t.Errorf("%q: %q is not among what is written, %q", line, want, got)
		}
	}
	for _, line := range []string{"cat a", "grep x f", "ls > /dev/null", "git status", "git config get a", "sed s/a/b/ f"} {
		if got := Parse(line).Writes(); len(got) > 0 {
			t.Errorf("%q writes %q", line, got)
		}
	}
}

// TestTrust_P02_TheWorkIsBounded: what is repeated to 64 KiB costs no more memory than a multiple of that, and
// lists no more commands than the limit.
func TestTrust_P02_TheWorkIsBounded(t *testing.T) {
	s := Surroundings{Dir: "/w", Home: "/home/u", Roots: []string{"/w"}}
	for _, piece := range []string{
		"(", "{ ", "`", "$(", "${", "\"", "\"$(", "'", "<<E\n", "<<E;", "if ", "while ", "case a in a) ", "! ", "time ", "$((", "$((-", "((", "[[ ! ", "a=", "a[", "{a,", "nice ", "find -exec ", "find -exec a ; ",
		"sh -c ", "env -S ", "x|", "$(')'", "f() ", "coproc ", "<(", ">a ", "\\\n", "let ", "eval ", "\"${x:-", "${a/", "${a[", "+(", "$[", "$[']'", "cd a;", "rm -r *;", "cd a; rm -r *;", "a=b,", "a;", "a&", "<<<",
		"rm -r $a ", "xargs ", "sh -c 'sh';", "trap a;", "cat <<E\na\nE\n",
	} {
		for _, start := range []string{"", "echo "} {
			line := start + strings.Repeat(piece, (maxLine-8)/len(piece))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l := Parse(line)
			_, _ = l.ReadOnly()
			_, _, paths, _ := l.Destroys(s), l.MayDestroy(s), l.Paths(), l.Writes()
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 1000*maxLine {
				t.Errorf("%q, %q again and again: %d MiB", start, piece, used>>20)
			}
			if len(l.Commands) > maxCommands+1 || len(paths) > 2*maxLine {
				t.Errorf("%q, %q again and again: %d commands, %d paths", start, piece, len(l.Commands), len(paths))
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"bypass.txt", "reads.txt"} {
		lines, _ := corpus(f, file)
		for i, line := range lines {
			if i%7 == 0 {
				f.Add(line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		l := Parse(line)
		s := Surroundings{Dir: "/w", Home: "/home/u", Roots: []string{"/w"}}
		_, _, _, _ = l.Destroys(s), l.MayDestroy(s), l.Writes(), l.Paths()
		if proven, why := l.ReadOnly(); proven != (why == "") {
			t.Errorf("proven %v, because %q", proven, why)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for name, line := range map[string]string{
		"ordinary":      "cd src && go test ./... 2>&1 | tail -n 20",
		"64 KiB":        strings.Repeat("true && ", 8000) + "ls",
		"64 KiB words":  "ls " + strings.Repeat("aaaaaaa ", 8000),
		"64 KiB deep":   strings.Repeat("$(", 50) + strings.Repeat("ls; ", 15000) + strings.Repeat(")", 50),
		"64 KiB quotes": "echo '" + strings.Repeat("a", 64000) + "'",
		"64 KiB open":   strings.Repeat("\"$(", 20000),
		"64 KiB (a+)+":  "rg '(a+)+$' " + strings.Repeat("a", 64000),
	} {
		b.Run(name, func(b *testing.B) {
			s := Surroundings{Dir: "/w", Home: "/home/u", Roots: []string{"/w"}}
			for b.Loop() {
				l := Parse(line)
				_, _ = l.ReadOnly()
				_, _, _, _ = l.Destroys(s), l.MayDestroy(s), l.Writes(), l.Paths()
			}
		})
	}
}
