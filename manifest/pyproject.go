package manifest

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// pyproject is the parsed file.
type pyproject struct {
	root  map[string]any
	keys  []toml.Key
	lines []string
}

// parsePyproject reads the file's text. The error is a *Fault.
func parsePyproject(text string) (*pyproject, error) {
	big := map[string]any{}
	source := text
	for {
		var root map[string]any
		meta, err := toml.Decode(source, &root)
		if err == nil {
			return settle(text, root, meta.Keys(), big)
		}
		var fault toml.ParseError
		if !errors.As(err, &fault) {
			return nil, &Fault{File: pyprojectFile, Message: "pyproject.toml cannot be read: " + err.Error()}
		}
		var ok bool
		if source, ok = markNumber(source, fault.Position, big); !ok {
			return nil, tomlFault(fault)
		}
	}
}

func settle(text string, root map[string]any, keys []toml.Key, big map[string]any) (*pyproject, error) {
	if len(root) == 0 {
		return nil, &Fault{File: pyprojectFile, Message: "pyproject.toml is empty", Hint: "Restore it, or save the contract again in ComfyGit Manager."}
	}
	if len(big) > 0 {
		root = unmark(root, big).(map[string]any)
	}
	return &pyproject{root: root, keys: keys, lines: strings.Split(text, "\n")}, nil
}

func tomlFault(err toml.ParseError) *Fault {
	return &Fault{
		File:    pyprojectFile,
		Line:    err.Position.Line,
		Key:     err.LastKey,
		Message: "pyproject.toml is not valid TOML: " + err.Message,
		Hint:    "Correct that line; until then the last good contracts are served.",
	}
}

// numberLiteral is what a number that is too big for 64 bits may look like.
var numberLiteral = regexp.MustCompile(`^[+-]?(0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|[0-9_]+(\.[0-9_]+)?([eE][+-]?[0-9_]+)?)$`)

// markNumber replaces a number that the decoder has no room for by a text that
// stands for it. Manifests are written by a reader without that limit, and a
// seed of 2^64-1 is an ordinary one.
func markNumber(source string, at toml.Position, big map[string]any) (string, bool) {
	end := at.Start + at.Len
	if at.Start < 0 || end > len(source) || len(big) >= 1000 {
		return source, false
	}
	literal := source[at.Start:end]
	value, ok := bigNumber(literal)
	if !ok {
		return source, false
	}
	mark := "\ue000number " + literal
	big[mark] = value
	return source[:at.Start] + `"` + mark + `"` + source[end:], true
}

func bigNumber(literal string) (any, bool) {
	if !numberLiteral.MatchString(literal) {
		return nil, false
	}
	if n, ok := new(big.Int).SetString(strings.ReplaceAll(literal, "_", ""), 0); ok {
		return n, true
	}
	return math.Inf(1 - 2*strings.Count(literal[:1], "-")), true
}

func unmark(value any, big map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = unmark(v[k], big)
		}
	case []map[string]any:
		for i := range v {
			unmark(v[i], big)
		}
	case []any:
		for i := range v {
			v[i] = unmark(v[i], big)
		}
	case string:
		if n, ok := big[v]; ok {
			return n
		}
	}
	return value
}

// table walks down tables; a missing or other value is an empty table.
func (p *pyproject) table(path ...string) map[string]any {
	at := p.root
	for _, name := range path {
		next, ok := at[name].(map[string]any)
		if !ok {
			return map[string]any{}
		}
		at = next
	}
	return at
}

// keyOrder tells where a dotted key first stands in the file.
type keyOrder map[string]int

func (p *pyproject) order() keyOrder {
	order := keyOrder{}
	for i, key := range p.keys {
		if len(key) < 4 || key[0] != "tool" || key[1] != "comfygit" || key[2] != "workflows" {
			continue
		}
		for n := 4; n <= len(key); n++ {
			name := key[:n].String()
			if _, ok := order[name]; !ok {
				order[name] = i
			}
		}
	}
	return order
}

// sorted lists the keys of a table in the order of the file.
func (o keyOrder) sorted(table map[string]any, path toml.Key) []string {
	keys := sortedKeys(table)
	ranks := make(map[string]int, len(keys))
	for _, k := range keys {
		rank, ok := o[below(path, k).String()]
		if !ok {
			rank = math.MaxInt
		}
		ranks[k] = rank
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		switch {
		case ranks[a] < ranks[b]:
			return -1
		case ranks[a] > ranks[b]:
			return 1
		}
		return 0
	})
	return keys
}

func below(path toml.Key, name ...string) toml.Key {
	return append(path[:len(path):len(path)], name...)
}

// lineOf finds the n-th (from 0) header of that table, or 0. The decoder does
// not tell, and it is asked for only when something is wrong.
func (p *pyproject) lineOf(path toml.Key, n int) int {
	for i, line := range p.lines {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "[") || !strings.Contains(line, path[len(path)-1]) {
			continue
		}
		var header map[string]any
		meta, err := toml.Decode(line, &header)
		if err != nil || len(meta.Keys()) != 1 || !slices.Equal(meta.Keys()[0], path) {
			continue
		}
		if n == 0 {
			return i + 1
		}
		n--
	}
	return 0
}
