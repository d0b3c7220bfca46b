// Package shellquote writes texts into commands that a person copies into a shell, so that each
// stays one word whatever somebody wrote into it: names, commands and values of objects are other
// people's texts.
//
// In: a text. Out: a word for sh. No state.
package shellquote

import (
	"encoding/json"
	"strings"
)

// plainLetters are those that no shell takes for more than themselves.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"

// Quoted returns s as one word, in quotes.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Word returns s as one word, in quotes only where it needs them.
func Word(s string) string {
	if s != "" && strings.Trim(s, plainLetters) == "" {
		return s
	}
	return Quoted(s)
}

// Words returns all, each as one word.
func Words(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = Word(s)
	}
	return strings.Join(out, " ")
}

// JSON returns s as a JSON string, to be put into a patch, with &, < and > as they are; what is no
// UTF-8 in it is replaced.
func JSON(s string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "null" // a text is always JSON
	}
	return strings.TrimSuffix(out.String(), "\n")
}
