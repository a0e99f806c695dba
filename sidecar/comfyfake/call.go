package comfyfake

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"strconv"
	"time"
)

// call is one execution of one node.
type call struct {
	r      *run
	id     string
	class  *class
	inputs map[string]any // literals as JSON values, links resolved
	names  []string
	deaf   bool // the node does not look at interrupts
}

// result is what a node gives back: values for its output slots and what the
// UI shows, nil if nothing.
type result struct {
	values []any
	ui     *object
}

// nodeError is a failure with the Python exception type that it would have.
type nodeError struct {
	kind   string
	text   string
	frames []string // "file function" of each frame below the node's own
}

func (e *nodeError) Error() string { return e.text }

func (r *run) call(id string, k *class) *call {
	c := &call{r: r, id: id, class: k, inputs: map[string]any{}, deaf: k.deaf}
	inputs := r.it.prompt.object(id).object("inputs")
	for _, name := range inputs.keys {
		v := inputs.at[name]
		if from, slot, ok := link(v); ok && r.it.prompt.has(from) {
			v = nil
			if made := r.values[from]; slot < len(made) {
				v = made[slot]
			}
		}
		c.inputs[name] = v
		c.names = append(c.names, name)
	}
	return c
}

func (c *call) perform() (result, error) {
	if !c.deaf {
		if err := c.r.check(); err != nil {
			return result{}, err
		}
	}
	if err := c.r.hold(c.deaf); err != nil {
		return result{}, err
	}
	for _, name := range c.names {
		if b, ok := c.inputs[name].(blocker); ok {
			c.r.blocked(c.id, b)
			values := make([]any, len(c.class.outputs))
			for i := range values {
				values[i] = blocker{} // it speaks once only
			}
			return result{values: values}, nil
		}
	}
	return c.class.run(c)
}

// blocker is a value that keeps all nodes behind it from running.
type blocker struct{ message string }

// tick reports progress after a step's delay. It fails if the run was
// interrupted, and the node has to stop.
func (c *call) tick(value, limit any, p *preview) error {
	if err := c.pause(c.r.p.s.opts.StepDelay); err != nil {
		return err
	}
	if !c.deaf {
		if err := c.r.check(); err != nil {
			return err
		}
	}
	c.r.mark(c.id, value, limit, "running")
	rich := c.r.p.hub.wantsPreviewData(c.r.to)
	if p != nil && rich {
		c.r.sendPreview(c.id, p, true)
	}
	c.r.emit("progress", obj("value", value, "max", limit, "prompt_id", c.r.it.id, "node", c.id))
	if p != nil && !rich {
		c.r.sendPreview(c.id, p, false)
	}
	return nil
}

// pause waits; an interrupt is seen after it, as in a node that works.
func (c *call) pause(d time.Duration) error {
	if sleep(c.r.p.ctx, d) != nil {
		return errGone
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pictures is the value of an IMAGE slot.
type pictures []*image.NRGBA

func (c *call) images(name string) (pictures, error) {
	if list, ok := c.inputs[name].(pictures); ok && len(list) > 0 {
		return list, nil
	}
	return nil, &nodeError{kind: "AttributeError", text: fmt.Sprintf("'%s' object has no attribute 'shape'", pythonType(c.inputs[name]))}
}

func (c *call) text(name string) string { return str(c.inputs[name]) }

func (c *call) integer(name string) int64 {
	n, _ := intOf(c.inputs[name])
	return n
}

func (c *call) number(name string) float64 {
	n, ok := c.inputs[name].(json.Number)
	if !ok {
		return 0
	}
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}

// printed is current_inputs of an execution_error: each value in a list, what
// is more than a number, a text or nothing as Python prints it.
func (c *call) printed() *object {
	o := obj()
	for _, name := range c.names {
		switch v := c.inputs[name].(type) {
		case nil, bool, int, json.Number:
			o.set(name, []any{v})
		default:
			o.set(name, []any{printValue(v)})
		}
	}
	return o
}

func printValue(v any) string {
	switch v := v.(type) {
	case pictures:
		b := v[0].Bounds()
		return fmt.Sprintf("tensor(..., size=(%d, %d, %d, 3))", len(v), b.Dy(), b.Dx())
	case sound:
		return fmt.Sprintf("{'waveform': tensor(..., size=(1, %d, %d)), 'sample_rate': %d}", v.channels, len(v.samples), v.rate)
	case video:
		return "<comfy_api.latest._input_impl.video_types.VideoFromComponents object>"
	}
	return str(v)
}

func intOf(v any) (int64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func pythonType(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case string:
		return "str"
	case bool:
		return "bool"
	case json.Number:
		return "int"
	case []any:
		return "list"
	case *object, sound:
		return "dict"
	case video:
		return "VideoFromComponents"
	}
	return "Tensor"
}
