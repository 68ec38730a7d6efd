package local

import (
	"slices"
	"strings"
)

// environment returns what commands get: of what the harness inherited, the harmless and
// what extra names; then what keeps programs from waiting for a person; then given.
// Of several entries of a name the last counts.
func environment(inherited, extra, given []string) []string {
	kept := slices.DeleteFunc(slices.Clone(inherited), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return !slices.Contains(extra, name) && (!harmless(name) || hasLogin(value))
	})
	return slices.Concat(kept, quiet(), given)
}

// quiet makes programs print instead of waiting for somebody to page, edit or type.
func quiet() []string {
	return []string{
		"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "MANPAGER=cat",
		"GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true",
	}
}

// harmless is an allow-list, because no list of secrets is ever complete. It has
// what programs need to find themselves, their caches and the user's language.
func harmless(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ",
		"LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"CC", "CXX", "AR", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH",
		"GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY",
		"GOPRIVATE", "GOTOOLCHAIN", "GOWORK", "GOEXPERIMENT", "GOOS", "GOARCH", "CGO_ENABLED",
		"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_TARGET_DIR", "RUSTFLAGS",
		"JAVA_HOME", "JDK_HOME", "GRADLE_USER_HOME", "MAVEN_OPTS", "M2_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT",
		"NVM_DIR", "NVM_BIN", "NODE_PATH", "VOLTA_HOME", "FNM_DIR", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "COREPACK_HOME",
		"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYTHONPATH", "POETRY_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR",
		"RBENV_ROOT", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "COMPOSER_HOME", "DOTNET_ROOT", "MIX_HOME", "HEX_HOME", "OPAMROOT",
		"SDKMAN_DIR", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "HOMEBREW_PREFIX", "NIX_PATH", "NIX_PROFILES", "NIX_SSL_CERT_FILE",
		"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramFiles", "ProgramData":
		return true
	}
	return false
}

// hasLogin recognises an address that holds a name and password, e.g. of a proxy.
func hasLogin(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	return ok && strings.Contains(rest, "@")
}
