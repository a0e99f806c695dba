//go:build !unix

package sqlite_test

func child() bool { return false }
