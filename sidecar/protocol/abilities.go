package protocol

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Headers beyond the reference, which does not read them.
const (
	// PromptHeader brings the id that a submission's run is to be kept under.
	PromptHeader = "Studio-Prompt-Id"
	// abilitiesHeader comes with each of a worker's answers. Its value names
	// what the worker can do, and its newest event.
	abilitiesHeader = "Studio-Worker"
	abilities       = "keeps-prompt-id, events; head="
)

// TellAbilities says in an answer's header that the worker is one of ours: it
// keeps a run under the id that comes with it, so that handing it over again
// finds the same run, and /proxy/events tells of all runs, head being the
// number of the event that was the newest when it was asked.
func TellAbilities(h http.Header, head sidecar.Seq) {
	h.Set(abilitiesHeader, abilities+strconv.FormatInt(int64(head), 10))
}

// Abilities reads in an answer's header whether the worker is one of ours, and
// the number of its newest event.
func Abilities(h http.Header) (head sidecar.Seq, ours bool) {
	digits, ours := strings.CutPrefix(h.Get(abilitiesHeader), abilities)
	n, err := strconv.ParseInt(digits, 10, 64)
	return sidecar.Seq(n), ours && err == nil
}
