package redaction

import "strings"

// shape is how tokens of one kind look: a prefix, then characters of a kind.
type shape struct {
	name   string
	prefix string
	least  int // how many characters follow the prefix at least
	also   string
}

// shapes lists well-known kinds of tokens, by what their issuers document or print. Letters and digits
// may follow each prefix, and what also says.
func shapes() []shape {
	return []shape{
		{"github-token", "ghp_", 36, ""},
		{"github-token", "gho_", 36, ""},
		{"github-token", "ghu_", 36, ""},
		{"github-token", "ghs_", 36, ""},
		{"github-token", "ghr_", 36, ""},
		{"github-token", "github_pat_", 40, "_"},
		{"gitlab-token", "glpat-", 20, "-_."},
		{"gitlab-token", "gldt-", 20, "-_"},
		{"aws-key-id", "AKIA", 16, ""},
		{"aws-key-id", "ASIA", 16, ""},
		{"slack-token", "xoxb-", 20, "-"},
		{"slack-token", "xoxp-", 20, "-"},
		{"slack-token", "xoxa-", 20, "-"},
		{"slack-token", "xoxs-", 20, "-"},
		{"slack-token", "xapp-", 20, "-"},
		{"google-key", "AIza", 35, "-_"},
		{"google-token", "ya29.", 30, "-_."},
		{"google-secret", "GOCSPX-", 24, "-_"},
		{"anthropic-key", "sk-ant-", 24, "-_"},
		{"openai-key", "sk-proj-", 24, "-_"},
		{"openai-key", "sk-svcacct-", 24, "-_"},
		{"api-key", "sk-", 32, "-_"},
		{"stripe-key", "sk_live_", 20, ""},
		{"stripe-key", "rk_live_", 20, ""},
		{"stripe-key", "sk_test_", 20, ""},
		{"stripe-secret", "whsec_", 24, ""},
		{"npm-token", "npm_", 36, ""},
		{"pypi-token", "pypi-AgE", 40, "-_"},
		{"huggingface-token", "hf_", 30, ""},
		{"sendgrid-key", "SG.", 40, "-_."},
		{"digitalocean-token", "dop_v1_", 60, ""},
		{"docker-token", "dckr_pat_", 24, "-_"},
		{"vault-token", "hvs.", 24, "-_"},
		{"jwt", "eyJ", 60, "-_."},
		{"age-key", "AGE-SECRET-KEY-1", 50, ""},
	}
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemDash  = "-----"
)

// find appends where in text tokens of the shape are.
func (s shape) find(text string, at []span) []span {
	for from := 0; ; {
		i := strings.Index(text[from:], s.prefix)
		if i < 0 {
			return at
		}
		i += from
		end := i + len(s.prefix)
		for end < len(text) && s.has(text[end]) {
			end++
		}
		from = end
		if end-i-len(s.prefix) < s.least || i > 0 && isWord(text[i-1]) {
			continue
		}
		if s.name == "jwt" && strings.Count(text[i:end], ".") != 2 {
			continue
		}
		at = append(at, span{i, end, s.name})
	}
}

func (s shape) has(c byte) bool { return isAlnum(c) || strings.IndexByte(s.also, c) >= 0 }

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isWord(c byte) bool { return isAlnum(c) || c == '_' }

// findPEM appends where in text private keys are. One that is not ended lasts to the
// first line that cannot be a part of it.
func findPEM(text string, at []span) []span {
	for from := 0; ; {
		i := strings.Index(text[from:], pemBegin)
		if i < 0 {
			return at
		}
		i += from
		label, rest, ok := strings.Cut(text[i+len(pemBegin):], pemDash)
		from = i + len(pemBegin)
		if !ok || len(label) > 64 || !strings.HasSuffix(label, "PRIVATE KEY") && !strings.HasSuffix(label, "PRIVATE KEY BLOCK") {
			continue
		}
		end := len(text) - len(rest)
		if j := strings.Index(rest, pemEnd+label+pemDash); j >= 0 {
			end += j + len(pemEnd+label+pemDash)
		} else {
			end += keyLines(rest)
		}
		at = append(at, span{i, end, "private-key"})
		from = end
	}
}

// keyLines is how much of a text is lines of a key, also when line ends are escaped.
func keyLines(text string) int {
	n := 0
	for n < len(text) && (isAlnum(text[n]) || strings.IndexByte("+/=\\\r\n\t :,-", text[n]) >= 0) {
		n++
	}
	return n
}

// findLogins appends where in text passwords of addresses are, scheme://user:password@host.
func findLogins(text string, at []span) []span {
	for from := 0; ; {
		i := strings.Index(text[from:], "://")
		if i < 0 {
			return at
		}
		i += from + len("://")
		from = i
		end := i
		for end < len(text) && text[end] > ' ' && text[end] < 0x7f && strings.IndexByte("/?#\"'<>`\\", text[end]) < 0 {
			end++
		}
		host := strings.LastIndexByte(text[i:end], '@')
		if host < 0 {
			continue
		}
		_, password, ok := strings.Cut(text[i:i+host], ":")
		if ok && password != "" && !strings.HasPrefix(password, "$") && !strings.HasPrefix(password, "‹") && strings.Trim(password, "*x.") != "" {
			at = append(at, span{i + host - len(password), i + host, "password"})
		}
		from = end
	}
}
