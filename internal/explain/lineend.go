package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// lineEndIn is a variable of a container whose value, from a Secret or ConfigMap, is one line with
// a newline at its end: as a header, password or address that is another value.
func lineEndIn(in In, c container, at string) (restriction, bool) {
	if in.Objects == nil {
		return restriction{}, false
	}
	for i, e := range c.spec.Env {
		if e.ValueFrom == nil {
			continue
		}
		kind, name, key := "Secret", "", ""
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			name, key = r.Name, r.Key
		} else if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			kind, name, key = "ConfigMap", r.Name, r.Key
		}
		if r, ok := lineEndOf(in, finding.Object{Kind: kind, Namespace: in.Ref.Namespace, Name: name}, key); ok {
			r.field = fmt.Sprintf("%s.env[%d].valueFrom", at, i)
			r.text = fmt.Sprintf("Its variable %s is key %s of %s %s, and that value ends with a newline, as echo "+
				"without -n writes it: the newline is part of the value.", e.Name, key, kind, name)
			return r, true
		}
	}
	for i, e := range c.spec.EnvFrom {
		kind, name := "Secret", ""
		if e.SecretRef != nil {
			name = e.SecretRef.Name
		} else if e.ConfigMapRef != nil {
			kind, name = "ConfigMap", e.ConfigMapRef.Name
		}
		of := finding.Object{Kind: kind, Namespace: in.Ref.Namespace, Name: name}
		for _, key := range keysWithLineEnd(in, of) {
			r, _ := lineEndOf(in, of, key)
			r.field = fmt.Sprintf("%s.envFrom[%d]", at, i)
			r.text = fmt.Sprintf("Its variable %s%s is key %s of %s %s, and that value ends with a newline: the "+
				"newline is part of the value.", e.Prefix, key, key, kind, name)
			return r, true
		}
	}
	return restriction{}, false
}

// keysWithLineEnd are the keys of a Secret or ConfigMap whose values are one line with a newline at
// its end, sorted.
func keysWithLineEnd(in In, of finding.Object) []string {
	var out []string
	switch x := in.Objects.Get(of).(type) {
	case *corev1.Secret:
		for k, v := range x.Data {
			if string(v) == finding.OneLine {
				out = append(out, k)
			}
		}
	case *corev1.ConfigMap:
		for k, v := range x.Data {
			if len(v) > 1 && strings.Index(v, "\n") == len(v)-1 {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return out
}

// lineEndOf is a key whose value ends with a newline, with the command that takes it off.
func lineEndOf(in In, of finding.Object, key string) (restriction, bool) {
	for _, k := range keysWithLineEnd(in, of) {
		if k != key {
			continue
		}
		kind, read := strings.ToLower(of.Kind), ""
		path := strings.ReplaceAll(key, ".", `\.`)
		if of.Kind == "Secret" {
			read = fmt.Sprintf(
				`$(kubectl -n %s get secret %s -o jsonpath='{.data.%s}' | base64 -d | tr -d '\n' | base64 -w0)`,
				of.Namespace, of.Name, path)
		} else {
			read = fmt.Sprintf(`$(kubectl -n %s get configmap %s -o jsonpath='{.data.%s}' | tr -d '\n')`, of.Namespace,
				of.Name, path)
		}
		run := fmt.Sprintf(`kubectl -n %s patch %s %s --type=merge -p "{\"data\":{\"%s\":\"%s\"}}"`, of.Namespace, kind,
			of.Name, key, read)
		return restriction{object: of, value: key, fixes: []Fix{commandFix(fmt.Sprintf("take the newline off key "+
			"%s of %s %s, and start the Pod anew", key, of.Kind, of.Name), run, againCommand(in.Pod))}}, true
	}
	return restriction{}, false
}
