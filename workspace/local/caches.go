package local

// defaultCaches lists the caches of compilers and package managers.
func defaultCaches() []string {
	return []string{
		"~/.cache", "~/go", "~/.npm", "~/.node-gyp", "~/.yarn", "~/.pnpm-store", "~/.local/share/pnpm", "~/.bun/install/cache", "~/.deno",
		"~/.cargo/registry", "~/.cargo/git", "~/.gradle", "~/.m2/repository", "~/.ivy2", "~/.sbt", "~/.nuget/packages", "~/.gem", "~/.bundle/cache",
		"~/.cabal/packages", "~/.stack", "~/.hex", "~/.mix", "~/.composer/cache", "~/.pub-cache", "~/.ccache", "~/.terraform.d/plugin-cache",
	}
}
