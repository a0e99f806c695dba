package manifest

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// maxDigits bounds a number's length, as Python's int does.
const maxDigits = 4300

var (
	integerForm = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[+-]?([0-9]+(_[0-9]+)*(\.([0-9]+(_[0-9]+)*)?)?|\.[0-9]+(_[0-9]+)*)([eE][+-]?[0-9]+)?$`)
)

// integerText reads a whole number written in ASCII digits and returns it as
// JSON writes it.
func integerText(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if len(text) > maxDigits || !integerForm.MatchString(text) {
		return "", false
	}
	text, negative := unsigned(text)
	text = strings.TrimLeft(text[:len(text)-1], "0") + text[len(text)-1:]
	if negative && text != "0" {
		return "-" + text, true
	}
	return text, true
}

// decimalText reads a finite number written in ASCII digits and returns it as
// JSON has to have it; beyond that its spelling is kept.
func decimalText(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if len(text) > maxDigits || !decimalForm.MatchString(text) || !finite(strings.ReplaceAll(text, "_", "")) {
		return "", false
	}
	text, negative := unsigned(text)
	exponent := ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		text, exponent = text[:i], text[i:]
	}
	whole, fraction, point := strings.Cut(text, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if point && fraction == "" {
		fraction = "0"
	}
	if point {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return whole + exponent, true
}

func unsigned(text string) (string, bool) {
	text = strings.ReplaceAll(text, "_", "")
	rest := strings.TrimLeft(text, "+-")
	return rest, text[0] == '-'
}

func finite(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}

// rational is the exact value of a finite JSON number.
func rational(text string) *big.Rat {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		// A tiny exponent would cost megabytes; such a number is its float.
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e < -400 {
			f, _ := strconv.ParseFloat(text, 64)
			return new(big.Rat).SetFloat64(f)
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return new(big.Rat)
	}
	return r
}

func isNumber(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}
