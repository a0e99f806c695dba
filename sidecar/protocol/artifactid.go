package protocol

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	artifactPrefix = "artifact_"
	// artifactNear is how many files of a run have ids of the reference's form,
	// 32 hex digits. That of a later file names the run and the file.
	artifactNear = 256
)

// artifactID names the n-th file of a prompt's run. The digits are the prompt's
// number plus n, so that they lead back to the run.
func artifactID(prompt sidecar.PromptID, n int) string {
	id, err := uuid.Parse(string(prompt))
	if err != nil {
		return artifactPrefix + string(prompt) + "_" + strconv.Itoa(n)
	}
	if n < artifactNear {
		return artifactPrefix + hex.EncodeToString(plus(id, uint64(n)))
	}
	return artifactPrefix + hex.EncodeToString(id[:]) + "_" + strconv.Itoa(n)
}

// plus adds to a number of 128 bits, which begins anew after its largest.
func plus(id uuid.UUID, n uint64) []byte {
	low, carry := bits.Add64(binary.BigEndian.Uint64(id[8:]), n, 0)
	high := binary.BigEndian.Uint64(id[:8]) + carry
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)
}

// minus is the prompt whose n-th file a number names.
func minus(id uuid.UUID, n uint64) sidecar.PromptID {
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(id[8:]), n, 0)
	var prompt uuid.UUID
	binary.BigEndian.PutUint64(prompt[:8], binary.BigEndian.Uint64(id[:8])-borrow)
	binary.BigEndian.PutUint64(prompt[8:], low)
	return sidecar.PromptID(prompt.String())
}

// RunsOfArtifact are the runs that an artifact id may belong to, at most 256;
// none when it is no id of ours.
func RunsOfArtifact(id string) iter.Seq[sidecar.RunID] {
	return func(yield func(sidecar.RunID) bool) {
		digits, ours := strings.CutPrefix(id, artifactPrefix)
		digits, _, far := strings.Cut(digits, "_")
		number, err := uuid.Parse(digits)
		if !ours || err != nil {
			return
		}
		for n := range uint64(artifactNear) {
			if run := sidecar.RunOfPrompt(minus(number, n)); run != "" && !yield(run) || far {
				return
			}
		}
	}
}
