package manifest

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// doubtDefault notes a default that no run can use. The contract is offered all
// the same: whoever gives a value needs no default.
func (r reader) doubtDefault(c *Contract, in Input, path toml.Key, i int) {
	if len(in.Default) == 0 {
		return
	}
	why := ""
	value, err := coerce(in, in.Default)
	if err != nil {
		why = err.Error()
	} else if b := (binder{contract: c}); !b.permitted(in, value) {
		why = b.issues[0].Message
	}
	if why == "" {
		return
	}
	header := r.file.lineOf(path, i)
	line := r.file.lineBelow(header, "default")
	if line == 0 {
		line = r.file.lineOf(path[:len(path)-1], 0)
	}
	c.doubts = append(c.doubts, Fault{
		File:    pyprojectFile,
		Line:    line,
		Key:     fmt.Sprintf("%s[%d].default", path, i),
		Message: fmt.Sprintf("the default of input '%s' cannot be used: %s", in.Name, why),
		Hint:    fmt.Sprintf("Give it a value of type %s, or remove it. Runs that give the input are not concerned.", in.Type),
	})
}

// lineBelow is the line of a key in the table whose header is at a line; that
// of the header when the key is not found, 0 when there is no header.
func (p *pyproject) lineBelow(header int, key string) int {
	if header == 0 {
		return 0
	}
	for i, line := range p.lines[header:] {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			break
		}
		name, _, is := strings.Cut(line, "=")
		if is && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return header + 1 + i
		}
	}
	return header
}
