package journal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Ref identifies the Pod (or another object, see Kind) that a fact is about. UID distinguishes
// objects that had the same name.
type Ref struct {
	Kind      string `json:"kind,omitempty"` // empty means Pod
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Fact is something that became true. Its type is its meaning; Line describes it for people in one
// line without a trailing stop.
type Fact interface{ Line() string }

// Entry is a fact with time, object and component.
type Entry struct {
	Seq  uint64    `json:"seq"`            // position in its journal, growing
	At   time.Time `json:"at"`             // when Put was called
	Ref  Ref       `json:"ref"`            // the object
	By   string    `json:"by"`             // component: apiserver, scheduler, kubelet, controllers
	Node string    `json:"node,omitempty"` // node of the component, if any
	Fact Fact      `json:"-"`
}

// Sink takes facts. Put never blocks and reports no error: a full journal drops its oldest entries.
// It is safe for concurrent use.
type Sink interface{ Put(ref Ref, fact Fact) }

// Discard is the Sink of components that run without a journal.
type Discard struct{}

// Put does nothing.
func (Discard) Put(Ref, Fact) {}

// Kind returns a fact's name in JSON: its Go type name.
func Kind(f Fact) string {
	t := reflect.TypeOf(f)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

type wireEntry struct {
	entryFields
	Kind string          `json:"kind"`
	Line string          `json:"line,omitempty"`
	Fact json.RawMessage `json:"fact"`
}

// entryFields has Entry's fields without its methods, to be embedded for JSON.
type entryFields Entry

// MarshalJSON encodes the entry with its fact's kind, line and fields.
func (e Entry) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(e.Fact)
	if err != nil {
		return nil, fmt.Errorf("fact %T: %w", e.Fact, err)
	}
	return json.Marshal(wireEntry{entryFields(e), Kind(e.Fact), e.Fact.Line(), raw})
}

// UnmarshalJSON decodes an entry. A fact of unknown kind (of a newer version) becomes Foreign and
// keeps its line.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var w wireEntry
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Entry(w.entryFields)
	proto, ok := byKind[w.Kind]
	if !ok {
		e.Fact = Foreign{Name: w.Kind, Text: w.Line}
		return nil
	}
	v := reflect.New(reflect.TypeOf(proto))
	if err := json.Unmarshal(w.Fact, v.Interface()); err != nil {
		return fmt.Errorf("fact %s: %w", w.Kind, err)
	}
	e.Fact = v.Elem().Interface().(Fact)
	return nil
}

// Foreign is a fact of a kind that this version does not know.
type Foreign struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Line returns the line of the version that wrote the fact.
func (f Foreign) Line() string { return f.Text }
