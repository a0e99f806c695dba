package routes

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// holds is what a run is asked to wait for.
type holds struct {
	hold, approval bool
	notBefore      time.Time
	after          *sidecar.After
}

var holdKeys = []string{"hold", "not_before", "needs_approval", "after"}

func (h holds) ask(launch *sidecar.LaunchRequest) {
	launch.Hold, launch.NeedsApproval, launch.NotBefore, launch.After = h.hold, h.approval, h.notBefore, h.after
}

// inputNames tells which names are inputs of a contract.
func (c *call) inputNames(workflow, contract string) func(string) bool {
	return func(name string) bool {
		found, err := c.studio.Catalog().Snapshot().Contract(workflow, contract)
		return err == nil && slices.ContainsFunc(found.Inputs, func(in manifest.Input) bool { return in.Name == name })
	}
}

// splitHolds takes what a run is to wait for out of a body. In one that has its
// inputs beside them, as clients of the reference send it, a contract's input
// of such a name comes first.
func splitHolds(fields manifest.Values, inputs func(string) bool) (rest, asked manifest.Values) {
	_, apart := fields.Get("inputs")
	for _, field := range fields {
		if slices.Contains(holdKeys, field.Name) && (apart || !inputs(field.Name)) {
			asked = append(asked, field)
		} else {
			rest = append(rest, field)
		}
	}
	return rest, asked
}

func decodeHolds(asked manifest.Values) (h holds, err error) {
	if h.hold, err = flagOf(asked, "hold"); err != nil {
		return h, err
	}
	if h.approval, err = flagOf(asked, "needs_approval"); err != nil {
		return h, err
	}
	if h.notBefore, err = momentOf(asked, "not_before"); err != nil {
		return h, err
	}
	h.after, err = afterOf(asked)
	return h, err
}

// momentOf reads a time as RFC 3339 has it, or in seconds since 1970.
func momentOf(asked manifest.Values, name string) (time.Time, error) {
	raw, ok := asked.Get(name)
	if !ok || string(raw) == "null" {
		return time.Time{}, nil
	}
	wrong := badRequest(fmt.Sprintf("'%s' must be a time.", name),
		`Send a text with its zone, such as "2030-01-31T08:00:00Z", or the seconds since 1970 as a number.`)
	var at time.Time
	var text string
	if json.Unmarshal(raw, &text) == nil {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return at, wrong
		}
		at = parsed
	} else {
		seconds, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || seconds < 0 || seconds > maxMoment {
			return at, wrong
		}
		whole, part := math.Modf(seconds)
		at = time.Unix(int64(whole), int64(part*float64(time.Second)))
	}
	if at.UTC().Year() < 1 {
		return at, wrong // JSON has no such time to store
	}
	if time.Until(at) >= longest {
		return at, badRequest(fmt.Sprintf("'%s' is too far in the future.", name),
			"Name a time within the next hundred years. A number is in seconds since 1970: divide milliseconds by 1000.")
	}
	return at.UTC().Round(time.Millisecond), nil
}

// maxMoment is a time that time.Time still holds, in seconds since 1970.
const maxMoment = 1e15

func afterOf(asked manifest.Values) (*sidecar.After, error) {
	raw, ok := asked.Get("after")
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	const hint = `Send {"run_id": "run_…", "inputs": {"INPUT": "OUTPUT"}}.`
	members, err := manifest.ParseObject(raw, manifest.Limits{Depth: bodyDepth})
	if err != nil {
		return nil, badRequest("'after' must be a JSON object.", hint)
	}
	var after sidecar.After
	for _, m := range members {
		switch m.Name {
		case "run_id":
			after.Run = sidecar.RunID(textOf(m.Value))
		case "inputs":
			if after.Inputs, err = feedsOf(m.Value); err != nil {
				return nil, badRequest("'after.inputs' must name an output for each input.", hint)
			}
		default:
			return nil, badRequest(fmt.Sprintf("'after' has no member %q.", m.Name), hint)
		}
	}
	if after.Run == "" {
		return nil, badRequest("'after.run_id' must name the run to follow.", hint)
	}
	return &after, nil
}

func feedsOf(raw json.RawMessage) (feeds []sidecar.Feed, err error) {
	members, err := manifest.ParseObject(raw, manifest.Limits{Depth: bodyDepth})
	for _, m := range members {
		output := textOf(m.Value)
		if output == "" {
			return nil, manifest.ErrNotObject
		}
		feeds = append(feeds, sidecar.Feed{Input: m.Name, Output: output})
	}
	return feeds, err
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
