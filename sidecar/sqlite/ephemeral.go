package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	ephemeralFolder = "studio-sidecar-state-"
	ephemeralFile   = "state.db"
)

// locateEphemeral makes a private folder with a locked file, and sweeps the
// folders of processes that died before they could.
func (s *Store) locateEphemeral() error {
	s.sweep()
	for {
		folder, err := os.MkdirTemp("", ephemeralFolder)
		if err != nil {
			return fmt.Errorf("make a folder for ephemeral state: %w", err)
		}
		path := filepath.Join(folder, ephemeralFile)
		lock, err := tryLock(path + ".lock")
		if err == nil {
			s.folder, s.path, s.lock = folder, path, lock
			return nil
		}
		// Somebody who sweeps took the folder before it was locked.
		if !errors.Is(err, errHeld) && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(err, os.RemoveAll(folder))
		}
	}
}

// sweep removes what dead processes left. The kernel knows who is dead: it
// freed their locks.
func (s *Store) sweep() {
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), ephemeralFolder+"*"))
	if err != nil {
		return // the pattern is constant
	}
	for _, folder := range folders {
		if err := sweepFolder(folder); err != nil {
			s.log.Debug("ephemeral state was left behind", "folder", folder, "error", err)
		}
	}
}

func sweepFolder(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return err
	}
	// Not created here: a folder without a lock file is just being made.
	file, err := os.OpenFile(filepath.Join(folder, ephemeralFile+".lock"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = lockFile(file)
	if err == nil {
		err = os.RemoveAll(folder)
	}
	if errors.Is(err, errHeld) {
		err = nil
	}
	return errors.Join(err, file.Close())
}
