package comfy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// probeWithin bounds one ffprobe.
const probeWithin = 10 * time.Second

// containers are the formats that ffprobe may open. Playlists are not among
// them: they could send it anywhere.
const containers = "mov,matroska,avi,ogg,flv,mpegts,asf,gif"

var errNoVideo = errors.New("ffprobe found no video stream")

// probe asks ffprobe for the size of a video, where there is an ffprobe.
func (e *Executor) probe(ctx context.Context, key fileKey) (width, height int, err error) {
	tool, err := exec.LookPath("ffprobe")
	if err != nil {
		return 0, 0, fmt.Errorf("measure video: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "-v", "error",
		"-protocol_whitelist", "http,https,tcp,tls", "-format_whitelist", containers,
		"-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "json",
		e.http.base+viewPath(key.query(nil)))
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("measure video: %w", errors.Join(err, ctx.Err()))
	}
	var doc struct {
		Streams []struct{ Width, Height int } `json:"streams"`
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		return 0, 0, fmt.Errorf("read ffprobe's answer: %w", err)
	}
	if len(doc.Streams) == 0 || doc.Streams[0].Width <= 0 || doc.Streams[0].Height <= 0 {
		return 0, 0, errNoVideo
	}
	return doc.Streams[0].Width, doc.Streams[0].Height, nil
}
