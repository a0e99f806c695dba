package comfyfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// object is a JSON object that keeps the order of its keys, as Python's dict
// does: validation, node errors and PNG metadata all follow that order.
type object struct {
	keys []string
	at   map[string]any
}

// obj builds an object from alternating keys and values.
func obj(pairs ...any) *object {
	o := &object{at: make(map[string]any, len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		if key, ok := pairs[i].(string); ok {
			o.set(key, pairs[i+1])
		}
	}
	return o
}

func (o *object) set(key string, v any) {
	if _, ok := o.at[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.at[key] = v
}

func (o *object) drop(key string) {
	if _, ok := o.at[key]; ok {
		delete(o.at, key)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	}
}

func (o *object) has(key string) bool {
	_, ok := o.at[key]
	return ok
}

func (o *object) object(key string) *object {
	v, _ := o.at[key].(*object)
	return v
}

func (o *object) text(key string) string {
	v, _ := o.at[key].(string)
	return v
}

// clone copies the object and all containers in it.
func (o *object) clone() *object {
	c := &object{keys: slices.Clone(o.keys), at: make(map[string]any, len(o.at))}
	for k, v := range o.at {
		c.at[k] = cloneValue(v)
	}
	return c
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case *object:
		return v.clone()
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = cloneValue(v[i])
		}
		return list
	}
	return v
}

// MarshalJSON keeps order and number text.
func (o *object) MarshalJSON() ([]byte, error) { return appendJSON(nil, o), nil }

var errTrailing = errors.New("data after the JSON value")

// parseJSON reads one JSON value into nil, bool, json.Number, string, []any
// and *object.
func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := parseNext(d)
	if err != nil {
		return nil, fmt.Errorf("parse JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	return v, nil
}

func parseNext(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return parseObject(d)
	case json.Delim('['):
		return parseList(d)
	}
	return t, nil
}

func parseObject(d *json.Decoder) (any, error) {
	o := obj()
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
	}
	_, err := d.Token()
	return o, err
}

func parseList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}
