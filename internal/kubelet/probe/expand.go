package probe

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ExpandStatic replaces $(NAME) in a command by the container's variables that have a literal
// value. $$ is a dollar sign; a name that is not known stays as written.
func ExpandStatic(command []string, env []v1.EnvVar) []string {
	known := map[string]string{}
	for _, e := range env {
		if e.ValueFrom == nil {
			known[e.Name] = e.Value
		}
	}
	out := make([]string, len(command))
	for i, s := range command {
		out[i] = expand(s, known)
	}
	return out
}

func expand(s string, known map[string]string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		rest := s[i+1:]
		end := strings.IndexByte(rest, ')')
		switch {
		case rest[0] == '$':
			b.WriteByte('$')
			s = rest[1:]
		case rest[0] == '(' && end > 0:
			if v, ok := known[rest[1:end]]; ok {
				b.WriteString(v)
			} else {
				b.WriteString("$" + rest[:end+1])
			}
			s = rest[end+1:]
		default:
			b.WriteByte('$')
			s = rest
		}
	}
}
