package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// changeWindow is how long before a container's first failure a change of its settings is told.
const changeWindow = 30 * time.Minute

// setting is what a container takes from a ConfigMap or Secret.
type setting struct {
	object   finding.Object
	key      string // empty: every key
	variable string // the variable that has it, or the prefix of variables; empty: a file
}

// settingsOf are the settings of a container: variables and files.
func settingsOf(p *corev1.Pod, c *corev1.Container) []setting {
	var out []setting
	add := func(kind, name, key, variable string) {
		out = append(out, setting{finding.Object{Kind: kind, Namespace: p.Namespace, Name: name}, key, variable})
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			add("ConfigMap", r.Name, r.Key, e.Name)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			add("Secret", r.Name, r.Key, e.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.ConfigMapRef != nil {
			add("ConfigMap", e.ConfigMapRef.Name, "", e.Prefix)
		}
		if e.SecretRef != nil {
			add("Secret", e.SecretRef.Name, "", e.Prefix)
		}
	}
	files := func(kind, name string, items []corev1.KeyToPath) {
		for _, i := range items {
			add(kind, name, i.Key, "")
		}
		if len(items) == 0 {
			add(kind, name, "", "")
		}
	}
	for _, v := range p.Spec.Volumes {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			continue
		}
		if v.ConfigMap != nil {
			files("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items)
		}
		if v.Secret != nil {
			files("Secret", v.Secret.SecretName, v.Secret.Items)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				files("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items)
			}
			if s.Secret != nil {
				files("Secret", s.Secret.Name, s.Secret.Items)
			}
		}
	}
	return out
}

// firstFailure is when a container of the Pod first ended with an error, as far as is known.
func firstFailure(in In, c container, t *corev1.ContainerStateTerminated) time.Time {
	at := t.FinishedAt.Time
	for _, e := range in.Entries {
		if x, ok := e.Fact.(journal.ContainerExited); ok && x.Container == c.spec.Name && x.ExitCode != 0 &&
			(at.IsZero() || e.At.Before(at)) {
			at = e.At
		}
	}
	return at
}

// settingChange is a change of a ConfigMap or Secret before a container failed.
type settingChange struct {
	finding.Change
	object finding.Object
	used   []setting     // what the container takes, from any object
	before time.Duration // how long before the failure
}

// changedFindings are the ConfigMaps and Secrets of a container that were changed shortly before it
// first ended with an error. The change is to blame where the container's last lines name a key,
// the variable that has it, or a ConfigMap's value; else it is a note.
func changedFindings(in In, c container, t *corev1.ContainerStateTerminated) []finding.Finding {
	if in.Objects == nil || t == nil || t.ExitCode == 0 {
		return nil
	}
	failed := firstFailure(in, c, t)
	used := settingsOf(in.Pod, c.spec)
	var out []finding.Finding
	seen := map[finding.Object]bool{}
	for _, s := range used {
		if seen[s.object] {
			continue
		}
		seen[s.object] = true
		change, ok := finding.LastChange(in.Objects.Get(s.object))
		before := failed.Sub(change.At)
		if !ok || before < -time.Second || before > changeWindow {
			continue // times of the API are whole seconds
		}
		written := len(change.Keys)
		change.Keys = slices.DeleteFunc(change.Keys, func(k string) bool {
			return !slices.ContainsFunc(used, func(x setting) bool {
				return x.object == s.object && (x.key == "" || x.key == k)
			})
		})
		if len(change.Keys) == 0 && written > 0 {
			continue // of keys that it does not use
		}
		out = append(out, changedFinding(in, c, settingChange{change, s.object, used, max(before, 0)},
			lastOutput(in, c, t)))
	}
	return out
}

// changedFinding is a change as data; words are the container's last ones.
func changedFinding(in In, c container, x settingChange, words string) finding.Finding {
	o := x.object
	f := finding.Finding{Code: "ChangedBeforeFailure", Severity: finding.Note, Stage: finding.StageRun, Object: o,
		Field: "data", Related: []finding.Object{in.object()}, Numbers: map[string]string{
			"changed": x.At.UTC().Format(time.RFC3339), "before": ago(x.before), "keys": strings.Join(x.Keys, ",")}}
	what := "its keys " + joinList(x.Keys)
	switch {
	case len(x.Keys) == 0:
		what = "which keys is not known"
	case len(x.Keys) == 1:
		what = "its key " + x.Keys[0]
		f.Field, f.Value = "data."+x.Keys[0], x.Keys[0]
	case !x.Exact:
		what = "one or more of its keys " + joinList(x.Keys)
	}
	f.Message = fmt.Sprintf("%s %s was changed at %s, %s before container %s first ended with an error: %s, by %s.",
		o.Kind, o.Name, x.At.UTC().Format("15:04:05 UTC"), ago(x.before), c.spec.Name, what, x.Manager)
	values := finding.Values(in.Objects.Get(o))
	key, word := namedSetting(x, values, words)
	if key == "" {
		return f
	}
	f.Severity, f.Field, f.Value = finding.Broken, "data."+key, key
	if value, ok := values[key]; ok {
		f.Value = value
	}
	f.Numbers["key"] = key
	f.Message += fmt.Sprintf(" The container's last words name %s: key %s is to blame.", word, key)
	f.Remedies = []finding.Remedy{{Say: fmt.Sprintf("give key %s of %s the value that it had before, with kubectl "+
		"-n %s edit %s/%s; then start the Pod anew", key, o, o.Namespace, strings.ToLower(o.Kind), o.Name)}}
	return f
}

// namedSetting is the changed key that words name, and the word by which they do: the key, the
// variable that has it, or its value in a ConfigMap.
func namedSetting(x settingChange, values map[string]string, words string) (key, word string) {
	for _, k := range x.Keys {
		candidates := []string{k}
		for _, s := range x.used {
			switch {
			case s.object != x.object:
			case s.key == k && s.variable != "":
				candidates = append(candidates, s.variable)
			case s.key == "":
				candidates = append(candidates, s.variable+k)
			}
		}
		if v := strings.TrimSpace(values[k]); !strings.Contains(v, "\n") {
			candidates = append(candidates, v)
		}
		for _, w := range candidates {
			if hasWord(words, w) {
				return k, w
			}
		}
	}
	return "", ""
}

// hasWord reports whether a text has a word of three letters or more, in any case, that no letter
// or digit goes on before or behind.
func hasWord(text, word string) bool {
	return len(word) > 2 && regexp.MustCompile(`(?i)(^|[^A-Za-z0-9])`+regexp.QuoteMeta(word)+
		`($|[^A-Za-z0-9])`).MatchString(text)
}
