package why

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// UnmarshalJSON reads a step; what it has beside the fields of Step is kept to be refused. A `name`
// is of the target of the action: the node, the Pod, the component, the host, or with `kind`
// and `namespace` the object.
func (s *Step) UnmarshalJSON(raw []byte) error {
	type plain Step
	if err := json.Unmarshal(raw, (*plain)(s)); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return err
	}
	known := fields(reflect.TypeFor[Step]())
	for k := range keys {
		if !slices.Contains(known, k) {
			s.unknown = append(s.unknown, k)
		}
	}
	slices.Sort(s.unknown)
	s.named()
	return nil
}

func fields(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			out = append(out, fields(f.Type)...)
		} else if tag := f.Tag.Get("json"); tag != "" {
			out = append(out, tag)
		}
	}
	return out
}

// named puts a step's name where its action looks for it.
func (s *Step) named() {
	if s.Name == "" {
		return
	}
	var to *string
	name := s.Name
	switch s.Do {
	case "fake-node", "uncordon", "taint", "node-disk", "node-stats":
		to = &s.Node
	case "fake-pod":
		to = &s.Pod
	case "component", "configure":
		to = &s.Component
	case "registry":
		to = &s.Host
	case "wait", "patch", "delete", "recreate", "evict", "port-forward", "bind", "amend":
		if to = &s.Object; s.Do == "wait" {
			to = &s.For
		}
		if s.Kind != "" {
			name = strings.ToLower(s.Kind) + "/" + name
		} else if !strings.Contains(name, "/") && (s.Do == "evict" || s.Do == "port-forward" || s.Do == "bind") {
			name = "pod/" + name
		}
		if s.Namespace != "" {
			name += " -n " + s.Namespace
		}
	default:
		s.unknown = append(s.unknown, "name")
		return
	}
	if *to == "" {
		*to = name
	}
}

// actions are those of this runner; the others of the format are reported as void.
var (
	stepKinds = []string{"apply", "create", "wait", "sleep", "patch", "delete", "recreate", "uncordon", "taint",
		"fake-node", "fake-pod", "evict", "bind", "component", "configure", "registry", "port-forward"}
	unsupportedSteps = []string{"amend", "csi-driver", "node-stats", "node-disk"}
)

// check refuses what this runner does not know of a fixture before anything is run: an action, a
// field, the words of a wait. Nothing of it passes or fails silently.
func (f Fixture) check() error {
	for i, s := range f.Setup {
		if err := s.check(); err != nil {
			return fmt.Errorf("%s: step %d (%s): %w", f.Name, i+1, s.Do, err)
		}
	}
	if r := f.Expected.ResolvedWhen; r != nil {
		if err := checkPredicate(r.Object, r.Until); err != nil {
			return fmt.Errorf("%s: resolved_when: %w", f.Name, err)
		}
	}
	return nil
}

func (s Step) check() error {
	if slices.Contains(unsupportedSteps, s.Do) {
		return nil // step reports it
	}
	if !slices.Contains(stepKinds, s.Do) {
		return fmt.Errorf("`do: %s` is no deed that this runner knows", s.Do)
	}
	if len(s.unknown) > 0 {
		return fmt.Errorf("this runner does not know its %s", strings.Join(s.unknown, ", "))
	}
	need := func(field, value string) error {
		if value == "" {
			return fmt.Errorf("it does not say %s", field)
		}
		return nil
	}
	switch s.Do {
	case "wait":
		return checkPredicate(s.For, s.Until)
	case "sleep":
		_, err := time.ParseDuration(s.For)
		return err
	case "patch", "delete", "recreate", "evict", "port-forward", "bind":
		return need("its object", s.Object)
	case "uncordon", "taint":
		return need("its node", first(s.Node, s.Object))
	case "fake-node":
		if err := need("its node", s.Node); err != nil {
			return err
		}
		return oneOf("heartbeat", s.Heartbeat, "", "stop", "start")
	case "fake-pod":
		return need("its Pod", s.Pod)
	case "component":
		if err := oneOf("component", s.Component, "scheduler", "controllers"); err != nil {
			return err
		}
		return oneOf("state", s.State, "stopped", "running")
	case "configure":
		return need("its component", s.Component)
	}
	return nil
}

// oneOf refuses a value that is none of a field's.
func oneOf(field, value string, of ...string) error {
	if !slices.Contains(of, value) {
		return fmt.Errorf("%s %q: want one of %s", field, value, strings.TrimPrefix(strings.Join(of, ", "), ", "))
	}
	return nil
}
