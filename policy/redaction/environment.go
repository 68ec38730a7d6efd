package redaction

import (
	"slices"
	"strings"
	"unicode"
)

// secret is a value that must not be seen.
type secret struct{ name, value string }

const (
	// leastSecret is how long a value is at least, in bytes: shorter ones occur by chance.
	leastSecret = 8
	// longSecret is from which length on a value need not look like one.
	longSecret = 20
	// mostSecret is up to which length a secret is found when it is cut between two writes.
	mostSecret = 16 << 10
)

// fromEnvironment lists the secrets of an environment, longest first, so that one
// which holds another is found as a whole.
func fromEnvironment(environment []string, c Config) []secret {
	var all []secret
	for _, entry := range environment {
		variable, value, _ := strings.Cut(entry, "=")
		value = strings.TrimSpace(value)
		switch {
		case len(value) > mostSecret || len(value) < 4 || slices.Contains(c.Ignore, variable):
			continue
		case slices.Contains(c.Env, variable):
		case !namesSecret(variable) || !looksSecret(value):
			continue
		}
		if !slices.ContainsFunc(all, func(s secret) bool { return s.value == value }) {
			all = append(all, secret{variable, value})
		}
	}
	slices.SortStableFunc(all, func(a, b secret) int { return len(b.value) - len(a.value) })
	return all
}

// namesSecret reports whether the name of a variable says that its value is secret.
func namesSecret(variable string) bool {
	if switched(variable) {
		return false
	}
	for _, word := range strings.FieldsFunc(strings.ToUpper(variable), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		switch word {
		case "KEY", "APIKEY", "SECRETKEY", "ACCESSKEY", "PRIVATEKEY", "TOKEN", "AUTHTOKEN", "ACCESSTOKEN", "SECRET", "SECRETS",
			"PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PGPASSWORD", "PASSWORDS", "CREDENTIAL", "CREDENTIALS", "CREDS",
			"PAT", "AUTH", "AUTHORIZATION", "BEARER", "JWT", "COOKIE", "DSN", "SALT", "PIN", "OTP", "WEBHOOK", "CONNSTR":
			return true
		}
	}
	upper := strings.ToUpper(variable)
	return strings.HasSuffix(upper, "_URL") && (strings.Contains(upper, "DATABASE") || strings.Contains(upper, "REDIS") || strings.Contains(upper, "MONGO") || strings.Contains(upper, "AMQP")) ||
		strings.Contains(upper, "CONNECTION_STRING") || strings.HasSuffix(upper, "PASSWORD") || strings.HasSuffix(upper, "TOKEN") || strings.HasSuffix(upper, "SECRET")
}

// switched names variables whose names only sound secret.
func switched(variable string) bool {
	switch variable {
	case "PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GPG_KEY", "SSH_ASKPASS", "GIT_ASKPASS", "SUDO_ASKPASS", "DBUS_SESSION_BUS_ADDRESS":
		return true
	}
	return false
}

// looksSecret tells a key from an ordinary word, a path or a number.
func looksSecret(value string) bool {
	if len(value) < leastSecret || strings.HasPrefix(value, "/") && !strings.ContainsAny(value, "+=:@") {
		return false
	}
	if len(value) >= longSecret {
		return true
	}
	var letter, other bool
	for _, r := range value {
		if unicode.IsLetter(r) {
			letter = true
		} else {
			other = true
		}
	}
	return letter && other
}
