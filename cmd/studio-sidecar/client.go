package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

func newJSONRequest(ctx context.Context, method, url, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// save writes r to a file called name in dir and returns its path. The name is
// a server's: only its last part counts. A file that is there is not replaced:
// the new one gets a number. A partial file is not left behind.
func save(r io.Reader, dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make folder %s: %w", dir, err)
	}
	file, err := os.CreateTemp(dir, ".studio-*")
	if err != nil {
		return "", fmt.Errorf("write into %s: %w", dir, err)
	}
	_, err = io.Copy(file, r)
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	path := ""
	if err == nil {
		path, err = claim(dir, filepath.Base(filepath.FromSlash(strings.ReplaceAll(name, `\`, "/"))))
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(file.Name()))
	}
	return path, nil
}

// claim makes an empty file of that name, or of the first numbered one that is
// free, and returns its path.
func claim(dir, name string) (string, error) {
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; ; n++ {
		path := filepath.Join(dir, name)
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			return path, file.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		name = fmt.Sprintf("%s_%d%s", stem, n, ext)
	}
}
