package podactions

import (
	"fmt"
	"strings"
)

// expand replaces $(NAME) by what lookup knows; $$ is a dollar, and what is unknown stays as it is.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
func expand(s string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				b.WriteString("$(")
				i++
				continue
			}
			name := s[i+2 : i+end]
			if v, ok := lookup(name); ok {
				b.WriteString(v)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += end
		default:
			b.WriteByte('$')
			b.WriteByte(s[i+1])
			i++
		}
	}
	return b.String()
}

func expandAll(list []string, lookup func(string) (string, bool)) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, expand(s, lookup))
	}
	return out
}

// expandStrict is expand for subPathExpr: every name must have a value.
func expandStrict(s string, lookup func(string) (string, bool)) (string, error) {
	var err error
	out := expand(s, func(name string) (string, bool) {
		v, ok := lookup(name)
		if !ok || v == "" {
			err = fmt.Errorf("missing value for %s", name)
		}
		return v, ok
	})
	return out, err
}
