//go:build !unix

package trash

import "os"

// move gives what is called base in parent the path to, where nothing is.
func move(parent *os.Root, base, to string) error {
	if err := os.Rename(parent.Name()+string(os.PathSeparator)+base, to); err == nil {
		return nil
	}
	return moveByCopy(parent, base, to)
}
