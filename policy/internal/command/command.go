// Package command understands lines for a POSIX shell or bash as far as a policy must: which
// programs would run with which words, what is written, and what is proven to only read.
// It starts nothing and looks at no file. Everything here may be used from any goroutine.
//
// What is not fully understood is said to be so, and never guessed: a line is Unclear, a command Opaque, and
// nothing is proven of either.
package command

// Line is an analysed line or script.
type Line struct {
	// Commands are all simple commands of all constructs, substitutions included, in
	// the order in which they stand. What a command runs in turn comes behind it.
	Commands []Command
	// Unclear says what of the line is not fully understood, "" when all of it is.
	Unclear string

	background bool // something goes on while the line does
	unread     bool // not all commands are known to be listed
}

// Command is one simple command.
type Command struct {
	Text  string   // as it is written, for people
	Words []string // the program and its arguments without quotes; nil unless all are literal
	// Opaque says why Words is nil.
	Opaque string
	// Assigns tells that variables are assigned before or by the command.
	Assigns bool
	// Redirects are the files that it is connected with.
	Redirects []Redirect
	// Inner tells that another command of the line runs it, e.g. sudo, xargs, find, sh -c.
	Inner bool

	args []word // all of them, literal or not
}

// Redirect connects a command with a file.
type Redirect struct {
	Target string // without quotes, "" when it is not literal
	Write  bool

	word word
}

// Surroundings is where a line would run. All paths are absolute.
type Surroundings struct {
	Dir   string   // the working folder
	Home  string   // of the user
	Roots []string // of the workspace
}
