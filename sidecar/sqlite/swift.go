package sqlite

import (
	"errors"
	"fmt"
	"sync"

	driver "modernc.org/sqlite"

	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite/walvfs"
)

// swift makes commits that outlast a loss of power cost less. It returns the VFS
// for the connection that makes them.
var swift = sync.OnceValues(func() (vfs string, err error) {
	// What has to be on the disk is the log's data and its size; when it was
	// changed need not be.
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return "", fmt.Errorf("sync data alone: %w", err)
	}
	return walvfs.Name()
})
