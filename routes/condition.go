package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// tagOf is the ETag of a document about a run: the run's revision, which
// If-Match is about, and a digest of the text, since that tells more than the
// revision does.
func tagOf(run *sidecar.Run, body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + strconv.FormatInt(run.Revision, 10) + "-" + hex.EncodeToString(sum[:6]) + `"`
}

// showTagged answers with a document about a run, or tells that the client has
// it.
func (c *call) showTagged(run *sidecar.Run, body []byte) {
	tag, h := tagOf(run, body), c.w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Cookie, "+sessionHeader)
	if matches(c.r.Header.Get("If-None-Match"), tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return
	}
	c.json(http.StatusOK, body)
}

// expected are the revisions that If-Match names; nil for any. Of a tag the
// revision alone counts, so that progress does not make a change fail; a tag
// that is none of ours names no revision that there is.
func (c *call) expected() ([]int64, error) {
	given := c.r.Header.Values("If-Match")
	if len(given) == 0 {
		return nil, nil
	}
	revisions := []int64{}
	for tag := range strings.SplitSeq(strings.Join(given, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return nil, nil
		}
		number, quoted := strings.CutPrefix(strings.TrimPrefix(tag, "W/"), `"`)
		if !quoted || !strings.HasSuffix(number, `"`) {
			return nil, badRequest("'If-Match' must be an ETag, in its quotes.", "Send the ETag of GET /runs/{run_id} as it is.")
		}
		number, _, _ = strings.Cut(strings.TrimSuffix(number, `"`), "-")
		if revision, err := strconv.ParseInt(number, 10, 64); err == nil && strconv.FormatInt(revision, 10) == number {
			revisions = append(revisions, revision)
		}
	}
	return revisions, nil
}
