package server

// Routes lists the paths of the table, for tests that go through all of them.
func Routes() []string {
	var all []string
	for _, r := range routes() {
		all = append(all, r.path)
	}
	return all
}
