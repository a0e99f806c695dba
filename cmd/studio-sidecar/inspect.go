package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

type contractsCmd struct {
	JSON bool `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print what GET /contracts answers."`
}

func (c *contractsCmd) Run(line *cli, con console) error {
	env, err := line.environment()
	if err != nil {
		return err
	}
	snap := manifest.Open(env).Snapshot()
	if err := snap.Usable(); err != nil {
		return err
	}
	for _, f := range snap.Diagnose() {
		tell(con.err, placed(&f), f.Hint)
	}
	if c.JSON {
		_, err = fmt.Fprintf(con.out, "%s\n", snap.JSON())
		return err
	}
	table := tabwriter.NewWriter(con.out, 0, 4, 2, ' ', 0)
	for _, contract := range snap.Contracts() {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\n", contract.Workflow, contract.Name, inputNames(contract), outputNames(contract))
	}
	return table.Flush()
}

func inputNames(c *manifest.Contract) string {
	names := make([]string, 0, len(c.Inputs))
	for _, in := range c.Inputs {
		names = append(names, in.Name)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func outputNames(c *manifest.Contract) string {
	names := make([]string, 0, len(c.Outputs))
	for _, out := range c.Outputs {
		names = append(names, out.Name+" "+out.Type)
	}
	return "→ " + strings.Join(names, ", ")
}

type digestCmd struct {
	JSON bool `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print the whole environment_ref."`
}

func (c *digestCmd) Run(line *cli, con console) error {
	env, err := line.environment()
	if err != nil {
		return err
	}
	snap := manifest.Open(env).Snapshot()
	if c.JSON {
		return json.NewEncoder(con.out).Encode(snap.Ref(con.ctx))
	}
	digest := snap.Digest()
	if digest == "" {
		if err := snap.Usable(); err != nil {
			return err
		}
		return fmt.Errorf("no digest: a file in %s cannot be read", env.Manifest)
	}
	_, err = fmt.Fprintln(con.out, digest)
	return err
}

type healthCmd struct {
	tokenFlag
	URL          string        `name:"url" default:"http://127.0.0.1:8190" env:"STUDIO_SIDECAR_URL" help:"The sidecar's address, with its prefix."`
	ExpectDigest string        `name:"expect-digest" placeholder:"DIGEST" env:"STUDIO_SIDECAR_EXPECT_DIGEST" help:"Fail unless the contract digest is this one."`
	Timeout      time.Duration `default:"5s" env:"STUDIO_SIDECAR_TIMEOUT" help:"How long to wait for an answer."`
	JSON         bool          `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print the sidecar's answer as it is."`
}

// healthAnswer is the part of /health that the command judges.
type healthAnswer struct {
	OK          bool   `json:"ok"`
	Environment string `json:"environment"`
	Ref         struct {
		Digest string `json:"contract_digest"`
	} `json:"environment_ref"`
	ComfyUI struct {
		Available bool   `json:"available"`
		Error     string `json:"error"`
		Hint      string `json:"hint"`
	} `json:"comfyui"`
	Manifest struct {
		Faults []struct {
			File     string `json:"file"`
			Line     int    `json:"line"`
			Workflow string `json:"workflow"`
			Contract string `json:"contract"`
			Message  string `json:"message"`
		} `json:"faults"`
	} `json:"manifest"`
	Storage struct {
		OK    *bool  `json:"ok"` // nil: a sidecar of another make
		Error string `json:"error"`
	} `json:"storage"`
}

// wrong is what is not as it should be, the worst first; nil when all is well.
// A contract that is broken hides no other, and is no fault of the sidecar.
func (h *healthAnswer) wrong() error {
	if h.Storage.OK != nil && !*h.Storage.OK {
		return errors.New(h.Storage.Error)
	}
	for _, f := range h.Manifest.Faults {
		switch {
		case f.Workflow != "":
		case f.Line > 0:
			return fmt.Errorf("%s line %d: %s", f.File, f.Line, f.Message)
		default:
			return errors.New(f.Message)
		}
	}
	if !h.ComfyUI.Available {
		return fmt.Errorf("ComfyUI is not available: %s", h.ComfyUI.Error)
	}
	return nil
}

// healthMax bounds the answer of something that is no sidecar.
const healthMax = 1 << 20

func (c *healthCmd) Run(con console) error {
	if faults := c.faults(); len(faults) > 0 {
		return &usageError{faults: faults}
	}
	raw, answer, err := c.ask(con)
	if err != nil {
		return err
	}
	if c.JSON {
		fmt.Fprintf(con.out, "%s\n", raw)
	} else {
		state := "available"
		if !answer.ComfyUI.Available {
			state = "not available"
		}
		if answer.ComfyUI.Available && answer.ComfyUI.Hint != "" {
			state += ": " + answer.ComfyUI.Hint
		}
		fmt.Fprintf(con.out, "environment %s\ncomfyui %s\ndigest %s\n", answer.Environment, state, answer.Ref.Digest)
		for _, f := range answer.Manifest.Faults {
			if f.Workflow != "" {
				fmt.Fprintf(con.out, "broken %s/%s: %s\n", f.Workflow, f.Contract, f.Message)
			}
		}
	}
	if c.ExpectDigest != "" && c.ExpectDigest != answer.Ref.Digest {
		return fmt.Errorf("the contract digest is %q, not %q", answer.Ref.Digest, c.ExpectDigest)
	}
	return answer.wrong()
}

func (c *healthCmd) faults() (out []string) {
	if !isAddress(c.URL) {
		out = append(out, noSidecarURL(c.URL))
	}
	if c.Timeout <= 0 {
		out = append(out, fmt.Sprintf("--timeout (STUDIO_SIDECAR_TIMEOUT): %v is out of range; use more than 0, such as 5s", c.Timeout))
	}
	return out
}

func (c *healthCmd) ask(con console) ([]byte, healthAnswer, error) {
	var answer healthAnswer
	req, err := http.NewRequestWithContext(con.ctx, http.MethodGet, strings.TrimRight(c.URL, "/")+"/health?check_proxy=1", nil)
	if err != nil {
		return nil, answer, misuse("--url (STUDIO_SIDECAR_URL): %v", err)
	}
	c.show(req)
	client := http.Client{Timeout: c.Timeout}
	resp, err := client.Do(req)
	if err != nil {
		return nil, answer, hintedError{fmt.Errorf("no sidecar answers at %s: %w", c.URL, errors.Unwrap(err)), silentAdvice}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return nil, answer, hintedError{fmt.Errorf("the sidecar at %s asks for its token", c.URL), tokenAdvice}
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, healthMax))
	if err != nil {
		return nil, answer, fmt.Errorf("read the answer of %s: %w", c.URL, err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil || resp.StatusCode != http.StatusOK {
		return nil, answer, fmt.Errorf("what answers at %s is no sidecar (HTTP %d)", c.URL, resp.StatusCode)
	}
	return raw, answer, nil
}

type versionCmd struct {
	JSON bool `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

func (c *versionCmd) Run(con console) error {
	v := version()
	if c.JSON {
		return json.NewEncoder(con.out).Encode(map[string]string{"version": v})
	}
	_, err := fmt.Fprintln(con.out, "studio-sidecar", v)
	return err
}

// release is the version of the source; a build from a tag says more.
const release = "0.1.0"

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return release
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
