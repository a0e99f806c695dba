package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest names bytes by their SHA-256: 64 hex digits.
type Digest string

// DigestOf computes the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

// Blob is data that many runs may share and that is kept once.
type Blob struct {
	Digest Digest
	Data   []byte
}

// NewBlob names data by its digest.
func NewBlob(data []byte) Blob { return Blob{Digest: DigestOf(data), Data: data} }
