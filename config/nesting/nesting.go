// SPDX-License-Identifier: Apache-2.0

// Package nesting reads TOML that is not nested too deeply. The TOML library takes a time that grows by the square of the depth,
// and memory without end: a file of 200 KB would stop a process.
package nesting

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Most is how deep arrays, tables and dotted keys are nested at most. No file of the project's has more than four.
const Most = 16

// Decode is toml.Decode for a text that is not nested too deeply. A toml.ParseError says so of others. No error is longer than a
// line: the library has whole values in some.
func Decode(text string, into any) (toml.MetaData, error) {
	if line := deep(text); line > 0 {
		return toml.MetaData{}, toml.ParseError{Message: fmt.Sprintf("nested more than %d deep", Most), Position: toml.Position{Line: line}}
	}
	meta, err := toml.Decode(text, into)
	var syntax toml.ParseError
	switch {
	case err == nil:
	case errors.As(err, &syntax):
		syntax.Message = short(syntax.Message)
		err = syntax
	case len(err.Error()) > messageMost:
		err = errors.New(short(err.Error()))
	}
	return meta, err
}

// messageMost is the length of an error's text, at most.
const messageMost = 200

func short(message string) string {
	if len(message) <= messageMost {
		return message
	}
	return strings.ToValidUTF8(message[:messageMost/2], "") + " … " + strings.ToValidUTF8(message[len(message)-messageMost/4:], "")
}

// deep returns the line on which a text is nested too deeply; 0: none. It takes strings and comments for what they are, and
// leaves what is wrong to the library.
func deep(text string) int {
	line, depth, dots := 1, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			line, dots = line+1, 0
		case '#':
			i += lineLen(text[i:]) - 1
		case '"', '\'':
			n := stringLen(text[i:])
			line += strings.Count(text[i:i+n], "\n")
			i += n - 1
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth = max(depth-1, 0)
		case ',', '=':
			dots = 0
		case '.':
			dots++
		}
		if depth > Most || dots > Most {
			return line
		}
	}
	return 0
}

// lineLen is the length of what is left of a line, without its end.
func lineLen(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// stringLen is the length of the string that a text begins with, up to its end or that of the line, or of the text where a string
// may have several lines.
func stringLen(text string) int {
	quote, end := text[:1], lineLen(text)
	if strings.HasPrefix(text, quote+quote+quote) {
		quote, end = text[:3], len(text)
	}
	for i := len(quote); i < end; i++ {
		switch {
		case text[i] == '\\' && quote[0] == '"':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return end
}
