package trust

// ProjectPlugins are the plugins whose rows the .dsh/cordis.yml of a trusted folder may add, change and remove: tools, sections
// of the system prompt, and guards of convenience. None of them has an endpoint, a proxy, a certificate, a credential, a header, a variable of
// the environment or a program in its configuration, and none decides what may happen.
func ProjectPlugins() []string {
	return []string{
		"prompt-environment", "prompt-identity", "prompt-instructions", "repetition-guard", "session-title", "tool-spill",
		"tools-files", "tools-search", "tools-shell",
	}
}
