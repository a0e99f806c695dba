//go:build !linux

package sqlite_test

func child() bool { return false }
