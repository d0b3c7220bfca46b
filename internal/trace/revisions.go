package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// State is an object as it was stored at a revision.
type State struct {
	Revision int64
	Object   map[string]any
	Deleted  bool // removed at this revision; Object is its last state
}

// Revision is one write to an object.
type Revision struct {
	Revision      int64            `json:"revision"`
	At            time.Time        `json:"at,omitzero"`
	Verb          string           `json:"verb,omitempty"`
	Sub           string           `json:"subresource,omitempty"`
	User          string           `json:"user,omitempty"`
	Agent         string           `json:"agent,omitempty"`
	Managers      []string         `json:"managers,omitempty"` // field managers whose entries the write changed
	Changes       []journal.Change `json:"changes,omitempty"`
	Changed       []string         `json:"changed,omitempty"` // field names, if the values are compacted
	BeforeUnknown bool             `json:"lost,omitempty"`    // the state before is compacted
}

// Manager is an entry of metadata.managedFields: the last write of a field manager.
type Manager struct {
	Name   string   `json:"manager"`
	Verb   string   `json:"operation"`
	Sub    string   `json:"subresource,omitempty"`
	At     string   `json:"at,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

// History lists who wrote what.
type History struct {
	What           string     `json:"object"`
	OldestRevision int64      `json:"kept,omitempty"` // first revision of the store's history
	Revisions      []Revision `json:"revisions"`
	Managers       []Manager  `json:"managers,omitempty"`
	Partial        bool       `json:"partial,omitempty"` // the creation is not among the revisions
}

// HistoryInput is what a History is made from.
type HistoryInput struct {
	What           string
	OldestRevision int64
	States         []State         // oldest first; the first may precede the first known write
	Entries        []journal.Entry // of a Pod
}

// History joins states with the journal.
func (h HistoryInput) History() History {
	out := History{What: h.What, OldestRevision: h.OldestRevision, Partial: true}
	at := map[int64]*Revision{}
	get := func(n int64) *Revision {
		if at[n] == nil {
			at[n] = &Revision{Revision: n}
		}
		return at[n]
	}
	for _, e := range h.Entries {
		switch f := e.Fact.(type) {
		case journal.Written:
			r := get(f.Revision)
			r.At, r.Verb, r.Sub, r.User, r.Agent, r.Changed = e.At, f.Verb, f.Subresource, f.User, f.Agent, f.Changed
		case journal.Removed:
			if f.Revision > 0 {
				r := get(f.Revision)
				r.At, r.Verb = e.At, "remove"
			}
		}
	}
	var before *State
	for i := range h.States {
		s := &h.States[i]
		switch {
		case before != nil || !older(s, h.OldestRevision):
			get(s.Revision).diff(before, s)
		case at[s.Revision] != nil:
			at[s.Revision].Managers = changedPaths(nil, s.Object)
		}
		before = s
	}
	for _, n := range slices.Sorted(maps.Keys(at)) {
		r := *at[n]
		r.BeforeUnknown = n <= h.OldestRevision && len(r.Changes) == 0 && r.Verb != "create" ||
			n <= h.OldestRevision && r.Verb == "create"
		if r.Changes != nil {
			r.Changed = nil
		}
		if r.Verb == "create" && r.Sub == "" {
			out.Partial = false
		}
		out.Revisions = append(out.Revisions, r)
	}
	if len(h.States) > 0 {
		out.Managers = managers(h.States[len(h.States)-1].Object)
	}
	return out
}

// older reports whether a state was written before the oldest kept revision.
func older(s *State, kept int64) bool { return s.Revision <= kept }

// diff fills in the changes between two states.
func (r *Revision) diff(before, now *State) {
	var was map[string]any
	if before != nil {
		was = before.Object
	}
	switch {
	case now.Deleted:
		r.verb("remove")
		return
	case before == nil:
		r.verb("create")
	default:
		r.verb("write")
		r.Changes = journal.Changes(was, now.Object)
	}
	r.Managers = changedPaths(was, now.Object)
}

func (r *Revision) verb(v string) {
	if r.Verb == "" {
		r.Verb = v
	}
}

// changedPaths returns the managers whose entries differ between two states.
func changedPaths(was, now map[string]any) []string {
	old := map[string]string{}
	for _, m := range managers(was) {
		old[m.Name+"/"+m.Verb+"/"+m.Sub] = fmt.Sprint(m)
	}
	var out []string
	for _, m := range managers(now) {
		if old[m.Name+"/"+m.Verb+"/"+m.Sub] != fmt.Sprint(m) && !slices.Contains(out, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out
}

func managers(obj map[string]any) (out []Manager) {
	meta, _ := obj["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		field := func(k string) string { s, _ := m[k].(string); return s }
		fields, _ := m["fieldsV1"].(map[string]any)
		out = append(out, Manager{Name: field("manager"), Verb: field("operation"), Sub: field("subresource"),
			At: field("time"), Fields: owned("", fields)})
	}
	return out
}

// owned returns the fields of a managedFields entry, three levels deep.
func owned(path string, fields map[string]any) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if k == "." {
			continue
		}
		sub, _ := fields[k].(map[string]any)
		name := element(k)
		at := name
		switch {
		case strings.HasPrefix(k, "f:") && path != "":
			at = path + "." + name
		case path != "":
			at = path + "[" + name + "]"
		}
		if deep := strings.Count(at, "."); len(sub) == 0 || deep >= 2 {
			out = append(out, at)
			continue
		}
		out = append(out, owned(at, sub)...)
	}
	return out
}

// element returns a key of a managedFields entry as people write it: f:image, k:{"name":"web"},
// v:"x".
func element(k string) string {
	kind, text, _ := strings.Cut(k, ":")
	if kind != "k" {
		return strings.Trim(text, `"`)
	}
	var by map[string]any
	if json.Unmarshal([]byte(text), &by) != nil {
		return text
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprint(by[name]))
	}
	return strings.Join(parts, "/")
}

// WriteText prints the history, one revision per line, below it what it changed.
func (h History) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s: %d revisions known", h.What, len(h.Revisions))
	if h.Partial {
		p.line("  (its creation is not among them: the journal or the store's history does not reach back that far)")
	}
	for _, r := range h.Revisions {
		p.line("%s", r.headline())
		for _, c := range r.Changes {
			p.line("      %s", c.Line())
		}
		if len(r.Changed) > 0 {
			p.line("      changed: %s (values compacted)", strings.Join(r.Changed, ", "))
		} else if len(r.Managers) > 0 && len(r.Changes) == 0 && !r.BeforeUnknown && r.Verb != "create" &&
			r.Verb != "remove" {
			p.line("      only who owns which fields")
		} else if r.BeforeUnknown && r.Verb != "create" && r.Verb != "remove" {
			p.line("      what it changed is compacted: the store keeps history from revision %d on, some minutes",
				h.OldestRevision)
		}
	}
	if len(h.Managers) > 0 {
		p.line("Who owns which fields now (metadata.managedFields: the last write of each)")
		for _, m := range h.Managers {
			sub := ""
			if m.Sub != "" {
				sub = " " + m.Sub
			}
			at := ""
			if m.At != "" {
				at = " at " + m.At
			}
			p.line("  %s %s%s%s: %s", m.Name, m.Verb, sub, at, strings.Join(m.Fields, ", "))
		}
	}
	return p.err
}

func (r Revision) headline() string {
	at := "                        "
	if !r.At.IsZero() {
		at = r.At.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	out := fmt.Sprintf("  %8d  %s  %s", r.Revision, at, strings.TrimSpace(r.Verb+" "+r.Sub))
	if r.User != "" {
		out += " by " + r.User
	}
	who := r.Managers
	if r.Agent != "" && !slices.Contains(who, r.Agent) {
		who = append(slices.Clone(who), r.Agent)
	}
	if len(who) > 0 {
		out += " (" + strings.Join(who, ", ") + ")"
	}
	return out
}
