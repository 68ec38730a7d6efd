package cli

import "os"

// canAsk reports whether a person can answer on f. On a console of Windows a line cannot be waited for so that the
// waiting can be given up, so nobody is asked there.
func canAsk(*os.File) bool { return false }

func discardTyped(*os.File) {}
