package network

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/policy"
)

func rules(t testing.TB, allow, deny []string, granted ...string) *ruleset {
	t.Helper()
	for _, text := range append(append(allow[:len(allow):len(allow)], deny...), granted...) {
		if _, err := parseRule(text); err != nil {
			t.Fatal(err)
		}
	}
	s := &ruleset{}
	s.add(allow, deny)
	s.grant(granted)
	return s
}

// corpus returns the hosts of testdata/hosts.txt with what is expected of them.
func corpus(t testing.TB) (hosts []string, want map[string]string) {
	text, err := os.ReadFile("testdata/hosts.txt")
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		expected, quoted, _ := strings.Cut(line, " ")
		h, err := strconv.Unquote(`"` + quoted + `"`)
		if err != nil {
			t.Fatal(line, err)
		}
		hosts = append(hosts, h)
		want[h] = expected
	}
	long := strings.Repeat("a.", 125) + "com" // 253 bytes
	hosts = append(hosts, long, "a"+long, "")
	want[long], want["a"+long], want[""] = "refused", "bad", "bad"
	return hosts, want
}

// TestTrust_N01_HostCorpus decides about each host exactly.
func TestTrust_N01_HostCorpus(t *testing.T) {
	s := rules(t, []string{"a.com"}, nil)
	hosts, want := corpus(t)
	if len(hosts) < 80 {
		t.Fatalf("only %d hosts", len(hosts))
	}
	for _, h := range hosts {
		got := "allowed"
		if to, err := parseURLHost("http", h); err != nil {
			got = "bad"
		} else if s.check(to) != nil {
			got = "refused"
		}
		if got != want[h] {
			t.Errorf("%q is %s, want %s", h, got, want[h])
		}
	}
}

// FuzzHost compares with net/url: what we take is the host that everybody else sees.
func FuzzHost(f *testing.F) {
	hosts, _ := corpus(f)
	for _, h := range hosts {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, text string) {
		to, err := parseURLHost("http", text)
		if err != nil {
			return
		}
		u, err := url.Parse("http://" + text + "/path")
		if err != nil {
			t.Fatalf("%q is %s, and no address: %v", text, to, err)
		}
		name, port := strings.ToLower(u.Hostname()), u.Port()
		if addr, err := netip.ParseAddr(name); err == nil {
			name = addr.String()
		} else {
			name = strings.TrimSuffix(name, ".")
		}
		if port == "" {
			port = "80"
		}
		if want := net.JoinHostPort(name, port); to.String() != want || u.User != nil || u.Path != "/path" {
			t.Fatalf("%q is %s, and %s for net/url", text, to, want)
		}
		if again, err := parseTarget(to.String()); err != nil || again != to {
			t.Fatalf("%q is %s, which is %s: %v", text, to, again, err)
		}
	})
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		allow, deny, granted string
		to                   string
		want                 string // "" when it is allowed
		final                bool
	}{
		{allow: "*.a.com", to: "x.y.a.com:1"},
		{allow: "*.a.com", to: "a.com:1", want: "no rule"},
		{allow: "*.a.com", to: "xa.com:1", want: "no rule"},
		{allow: "*", to: "a.com:1"},
		{allow: "a.com:443", to: "a.com:443"},
		{allow: "a.com:443", to: "a.com:80", want: "no rule"},
		{allow: "*:443", to: "b.com:443"},
		{allow: "*", deny: "*.a.com", to: "b.a.com:80", want: "denies *.a.com", final: true},
		{allow: "a.com", deny: "a.com:22", to: "a.com:22", want: "denies a.com:22", final: true},
		{allow: "a.com", deny: "a.com:22", to: "a.com:80"},
		{granted: "a.com:80", to: "a.com:80"},
		{granted: "a.com:80", to: "a.com:81", want: "no rule"},
		{granted: "a.com:80", deny: "A.com.", to: "a.com:80", want: "denies", final: true},
		{deny: "*", granted: "a.com:80", allow: "*", to: "a.com:80", want: "denies *", final: true},
		{allow: "*", to: "127.0.0.1:80", want: "private"},
		{allow: "*:80", to: "127.0.0.1:80", want: "private"},
		{allow: "127.0.0.1", to: "127.0.0.1:80", want: "private"},
		{allow: "127.0.0.1:80", to: "127.0.0.1:80"},
		{allow: "127.0.0.1:80", to: "127.0.0.1:81", want: "private"},
		{granted: "10.0.0.1:80", to: "10.0.0.1:80"},
		{allow: "[::1]:80", to: "[::1]:80"},
		{allow: "localhost:80", to: "127.0.0.1:80"},
		{allow: "localhost:80", to: "10.0.0.1:80", want: "private"},
		{allow: "*", to: "[2606:4700::1]:443"},
		{allow: "8.8.8.8", to: "8.8.8.8:53"},
	} {
		list := func(text string) []string {
			if text == "" {
				return nil
			}
			return []string{text}
		}
		to, err := parseTarget(c.to)
		if err != nil {
			t.Fatal(err)
		}
		refusal := rules(t, list(c.allow), list(c.deny), list(c.granted)...).check(to)
		if (refusal == nil) != (c.want == "") {
			t.Errorf("%+v: %v", c, refusal)
		}
		if refusal != nil && (!strings.Contains(refusal.Refusal.Rule, c.want) || refusal.Refusal.Final != c.final || refusal.Refusal.Target != c.to || refusal.Allow == "") {
			t.Errorf("%+v: %+v", c, refusal)
		}
	}
	s := &ruleset{}
	s.add([]string{"a.com", "b_c", ""}, []string{"no host"})
	if to, _ := parseTarget("a.com:80"); s.check(to) == nil {
		t.Error("a rule that denies and is not understood denies nothing")
	}
}

// TestDenyWins is the law: a rule that denies is never outdone, and removing what allows allows no more.
func TestDenyWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "b", "com", "x-y"})
		name := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "labels"), ".")
		})
		text := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "*."}).Draw(t, "below") + name.Draw(t, "name") + rapid.SampledFrom([]string{"", ":80", ":443"}).Draw(t, "port")
		})
		allow, deny := rapid.SliceOfN(text, 0, 4).Draw(t, "allow"), rapid.SliceOfN(text, 0, 3).Draw(t, "deny")
		to, err := parseTarget(name.Draw(t, "to") + ":80")
		if err != nil {
			t.Fatal(err)
		}
		matches := func(rules []string) bool {
			for _, text := range rules {
				host, port, _ := strings.Cut(text, ":")
				below, ok := strings.CutPrefix(host, "*.")
				if (port == "" || port == "80") && (to.name == host || ok && len(to.name) > len(below)+1 && to.name[len(to.name)-len(below)-1:] == "."+below) {
					return true
				}
			}
			return false
		}
		s := &ruleset{}
		s.add(allow, deny)
		if got, want := s.check(to) == nil, matches(allow) && !matches(deny); got != want {
			t.Fatalf("allow %q, deny %q: %s is allowed: %v", allow, deny, to, got)
		}
	})
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "93.184.216.34": true, "2606:4700:4700::1111": true, "64:ff9b::8.8.8.8": true, "172.32.0.1": true, "100.128.0.1": true,
		"0.0.0.0": false, "0.1.2.3": false, "127.0.0.1": false, "127.255.255.254": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false, "192.0.2.1": false, "198.18.0.1": false,
		"198.51.100.7": false, "203.0.113.9": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::127.0.0.1": false, "::8.8.8.8": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": false, "64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false,
		"64:ff9b:1::8.8.8.8": false, "2002:7f00:1::": false, "2002:808:808::": false, "2001::1": false, "2001:db8::1": false, "3fff::1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "fec0::1": false, "100::1": false, "5f00::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v", text, got)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"a.com": "", "*.a.com:443": "", "*": "", "127.0.0.1:8080": "", "[::1]:80": "", "localhost:1": "", "8.8.8.8": "",
		"127.0.0.1": `name the port as well, as in "127.0.0.1:8080"`, "localhost": "name the port", "::1": "name the port", "a b": "allow: ", "*.8.8.8.8": "below an address", "a.com:0": "no port",
		"http://a.com": "no port", "*a.com": "allow: ", "a.*": "allow: ",
	} {
		c := Plugin.Default()
		c.Allow = []string{text}
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for want, change := range map[string]func(*Config){
		"deny: ": func(c *Config) { c.Deny = []string{"no host"} }, "proxy: ": func(c *Config) { c.Proxy = "" }, "maxUpload: ": func(c *Config) { c.MaxUpload = -1 },
		"maxBytes: ": func(c *Config) { c.MaxBytes = 1 }, "timeout: ": func(c *Config) { c.Timeout = 0 },
	} {
		c := Plugin.Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	to, _ := parseTarget("a.com:443")
	want := "reaching a.com:443 is refused: no rule allows this host; to allow it: the rule WebFetch(domain:a.com), or a.com:443 in the list allow of the plugin network"
	if got := rules(t, nil, nil).check(to).Error(); got != want {
		t.Error(got)
	}
	for limit, want := range map[policy.Limit]string{
		policy.LimitBytes: "longer than 7 bytes", policy.LimitTime: "longer than 7 ms", policy.LimitRedirects: "7 redirects", policy.LimitRatio: "7 times", policy.LimitUpload: "sends more than 7 bytes",
	} {
		if got := (&policy.LimitError{Limit: limit, Max: 7}).Error(); !strings.Contains(got, want) {
			t.Error(got)
		}
	}
}
