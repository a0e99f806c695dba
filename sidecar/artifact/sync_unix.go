//go:build unix

package artifact

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// syncNames makes the names in a folder durable.
func (d *Dir) syncNames(folder string) error {
	dir, err := d.folder().Open(folder)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system that cannot
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
