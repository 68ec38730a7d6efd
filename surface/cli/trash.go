package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/internal/trash"
)

func (p *program) trashCommand() *cobra.Command {
	return group("trash", "List, restore and empty what agents deleted", p.trashList(), p.trashRestore(), p.trashEmpty())
}

// bin is where deletions are. Its limits are those of the workspace and do not matter here.
func (p *program) bin() (trash.Bin, error) {
	dirs, err := p.home()
	return trash.Bin{Dir: filepath.Join(dirs.State, "trash")}, err
}

func (p *program) trashList() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List what was deleted by file tools and can be restored",
		Args:  exactly(0),
	}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(*cobra.Command, []string) error {
		bin, err := p.bin()
		if err != nil {
			return err
		}
		items, err := bin.List()
		if err != nil {
			return failed(err)
		}
		if items == nil {
			items = []trash.Item{} // an empty list in JSON
		}
		return p.print(*asJSON, items, func(w io.Writer) error {
			if len(items) == 0 {
				_, err := fmt.Fprintln(w, "nothing is in the trash")
				return err
			}
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			for _, item := range items {
				if _, err := fmt.Fprintf(table, "%s\t%s\t%d files\t%d bytes\t%s\n",
					item.ID, item.Deleted.Local().Format(time.DateTime), item.Files, item.Bytes, plain(item.Path)); err != nil {
					return err
				}
			}
			return table.Flush()
		})
	}
	return c
}

func (p *program) trashRestore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore <id>",
		Short: "Put something back where it was",
		Long:  "Puts what was deleted back where it was, or to the path of --to. The id may be cut short if it fits only one. Nothing is replaced.",
		Args:  exactly(1),
	}
	to := c.Flags().String("to", "", "restore to this `path`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		bin, err := p.bin()
		if err != nil {
			return err
		}
		id, err := trashed(bin, args[0])
		if err != nil {
			return err
		}
		path := *to
		if path != "" {
			if path, err = filepath.Abs(path); err != nil {
				return fmt.Errorf("find %s: %w", *to, err)
			}
		}
		item, err := bin.Restore(id, path)
		if err != nil {
			return failed(err)
		}
		if path == "" {
			path = item.Path
		}
		_, err = fmt.Fprintf(p.stdout, "restored %s\n", plain(path))
		return failed(err)
	}
	return c
}

func (p *program) trashEmpty() *cobra.Command {
	return &cobra.Command{
		Use:   "empty [id...]",
		Short: "Remove things from the trash for good, all of them without an id",
		RunE: func(_ *cobra.Command, args []string) error {
			bin, err := p.bin()
			if err != nil {
				return err
			}
			var ids []string
			for _, arg := range args {
				id, err := trashed(bin, arg)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return failed(bin.Empty(ids...))
		},
	}
}

// trashed returns the id of the one item whose id ends or begins so.
func trashed(bin trash.Bin, id string) (string, error) {
	items, err := bin.List()
	if err != nil {
		return "", failed(err)
	}
	var found []string
	for _, item := range items {
		if item.ID == id {
			return id, nil
		}
		if len(id) >= 4 && (strings.HasPrefix(item.ID, id) || strings.HasSuffix(item.ID, id)) {
			found = append(found, item.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: %w; see dsh trash list", plain(id), trash.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", errors.New("several items have such an id: give more of it, see dsh trash list")
}
