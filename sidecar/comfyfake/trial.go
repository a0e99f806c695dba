package comfyfake

import (
	"fmt"
	"time"
)

// trialClasses are nodes for tests: slow, deaf to interrupts, failing.
func trialClasses() []*class {
	steps := integer("steps", 4, 1, 10000, "step", 1)
	image := []input{{name: "image", kind: "IMAGE"}}
	picture := []string{"IMAGE"}
	wide := input{name: "seed", kind: "INT", options: obj("default", 0, "min", 0, "max", uint64(1<<64-1), "control_after_generate", true)}
	return []*class{
		{name: "TrialSlow", display: "Slow", about: "Passes the picture on after a number of steps.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), steps), optional: []input{wide}, outputs: picture, outputNames: picture, run: runSlow},
		{name: "TrialDeaf", display: "Deaf", about: "As Slow, and ignores interrupts.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), steps), outputs: picture, outputNames: picture, deaf: true, run: runSlow},
		{name: "TrialError", display: "Error", about: "Raises a RuntimeError with the given text.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), input{name: "message", kind: "STRING", options: obj("default", "it broke")}),
			outputs:  picture, outputNames: picture, run: runError},
		{name: "TrialSleep", display: "Sleep", about: "Waits without a tick, as most real nodes do.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), input{name: "seconds", kind: "FLOAT", options: obj("default", 1.0, "min", 0.0, "max", 3600.0)}),
			outputs:  picture, outputNames: picture, run: runSleep},
		{name: "TrialBlocker", display: "Blocker", about: "Blocks what follows; verbose tells of it by an execution_error that does not end the run.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), input{name: "block", kind: "BOOLEAN", options: obj("default", true)}, input{name: "verbose", kind: "BOOLEAN", options: obj("default", false)}),
			outputs:  picture, outputNames: picture, run: runBlocker},
		{name: "TrialExpand", display: "Expand", about: "Expands into a number of inner nodes.", category: "trial", module: "comfyfake",
			required: append(append([]input{}, image...), integer("count", 2, 1, 100)), outputs: picture, outputNames: picture, run: runExpand},
		{name: "TrialLazy", display: "Lazy", about: "Asks only for the picture that it passes on.", category: "trial", module: "comfyfake",
			required: []input{{name: "first", kind: "IMAGE", options: obj("lazy", true)}, {name: "second", kind: "IMAGE", options: obj("lazy", true)},
				{name: "use_second", kind: "BOOLEAN", options: obj("default", false)}},
			outputs: picture, outputNames: picture, lazy: chosenInput, run: func(c *call) (result, error) { return one(c.inputs[chosenInput(c)[0]]), nil }},
		{name: "TrialOutput", display: "Output", about: "Shows any JSON object as its UI output.", category: "trial", module: "comfyfake",
			required: []input{{name: "ui", kind: "STRING", options: obj("default", "{}", "multiline", true)}}, outputNode: true, run: runOutput},
	}
}

func runSlow(c *call) (result, error) {
	n := c.integer("steps")
	var shown *preview
	if list, ok := c.inputs["image"].(pictures); ok && c.r.previews() {
		shown = &preview{picture: list[0]}
	}
	for i := range n {
		if err := c.tick(i+1, n, shown); err != nil {
			return result{}, err
		}
	}
	return one(c.inputs["image"]), nil
}

func runError(c *call) (result, error) {
	return result{}, &nodeError{kind: "RuntimeError", text: c.text("message")}
}

func runSleep(c *call) (result, error) {
	if err := c.pause(time.Duration(c.number("seconds") * float64(time.Second))); err != nil {
		return result{}, err
	}
	return one(c.inputs["image"]), nil
}

func runOutput(c *call) (result, error) {
	v, err := parseJSON([]byte(c.text("ui")))
	ui, ok := v.(*object)
	if err != nil || !ok {
		return result{}, &nodeError{kind: "ValueError", text: "ui is not a JSON object"}
	}
	if len(ui.keys) == 0 {
		return result{}, nil // an empty dict counts as no output
	}
	return result{ui: ui}, nil
}

// previews says whether nodes should send pictures of unfinished work: the
// server's setting, which the newer generation lets a prompt override.
func (r *run) previews() bool {
	extra, _ := r.it.extra.(*object)
	if extra != nil && r.p.s.opts.Generation >= V0_33_0 {
		switch extra.at["preview_method"] {
		case "latent2rgb", "auto", "taesd":
			return true
		case "none":
			return false
		}
	}
	return r.p.s.opts.Previews
}

func runBlocker(c *call) (result, error) {
	switch {
	case !truthy(c.inputs["block"]):
		return one(c.inputs["image"]), nil
	case truthy(c.inputs["verbose"]):
		return one(blocker{"Blocked Execution"}), nil
	}
	return one(blocker{}), nil
}

// runExpand plays the messages of inner nodes, whose ids begin with the
// node's own.
func runExpand(c *call) (result, error) {
	for i := range c.integer("count") {
		inner := fmt.Sprintf("%s.0.0.%d", c.id, i+1)
		c.r.mark(inner, 0.0, 1.0, "running")
		c.r.own("executing", obj("node", inner, "display_node", c.id, "prompt_id", c.r.it.id))
		if err := c.pause(c.r.p.s.opts.StepDelay); err != nil {
			return result{}, err
		}
		if err := c.r.check(); err != nil {
			return result{}, err
		}
		c.r.emit("progress", obj("value", 0.5, "max", 1.0, "prompt_id", c.r.it.id, "node", inner))
		c.r.mark(inner, 1.0, 1.0, "finished")
	}
	return one(c.inputs["image"]), nil
}

func chosenInput(c *call) []string {
	if truthy(c.inputs["use_second"]) {
		return []string{"second"}
	}
	return []string{"first"}
}
