package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkStep refuses what Step and Wait cannot hold or this replay cannot do: an unknown action or
// field, several actions, terms of a wait that would never come true.
func checkStep(raw []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return err
	}
	var s Step
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("a form that this replay does not know: %w", err)
	}
	if len(keys) != 1 {
		return fmt.Errorf("a step is one deed, this has %d", len(keys))
	}
	if s.Patch != nil && patchTypes[s.Patch.Type] == "" {
		return fmt.Errorf("patch of type %q: want strategic, merge, json or apply", s.Patch.Type)
	}
	if s.Kubelet != "" && s.Kubelet != "stop" && s.Kubelet != "start" {
		return fmt.Errorf("kubelet %q: want stop or start", s.Kubelet)
	}
	if s.Wait != nil {
		return s.Wait.check()
	}
	return nil
}

// check refuses words that podIs and objectIs do not know.
func (w *Wait) check() error {
	known := validObjectCondition
	switch {
	case w.Pod != "" && w.Object == "":
		known = validPodCondition
	case w.Pod != "" || w.Object == "":
		return errors.New("a wait is for a Pod or an object")
	}
	if !known(w.Until) {
		return fmt.Errorf("a wait until %q: these words are not known", w.Until)
	}
	return nil
}

func validPodCondition(until string) bool {
	if what, ok := strings.CutPrefix(until, "event="); ok {
		_, n, counted := strings.Cut(what, ":")
		return what != "" && (!counted || number(n))
	}
	key, value, _ := strings.Cut(until, "=")
	switch key {
	case "cond":
		return validCondition(value)
	case "restarts>":
		return number(value)
	case "phase", "waiting", "running", "terminated":
		return value != ""
	}
	return slices.Contains([]string{"gone", "ready", "unready", "scheduled", "deleting"}, until)
}

func validObjectCondition(until string) bool {
	if value, ok := strings.CutPrefix(until, "cond="); ok {
		return validCondition(value)
	}
	if _, value, ok := strings.Cut(until, ">="); ok {
		return number(value)
	}
	field, value, _ := strings.Cut(until, "=")
	return until == "gone" || field != "" && value != ""
}

func validCondition(value string) bool {
	kind, status, _ := strings.Cut(value, "=")
	return kind != "" && slices.Contains([]string{"True", "False", "Unknown"}, status)
}

func number(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
