package journal

import "time"

// Query selects entries. Zero fields select everything.
type Query struct {
	Kind      string // object kind; empty means Pod
	Namespace string
	Name      string
	UID       string    // one life of the name
	Since     time.Time // entries not older
	After     uint64    // entries with a greater Seq
	Limit     int       // newest entries first to be kept; 0 means all
}

// Match tells whether the query selects the entry.
func (q Query) Match(e *Entry) bool {
	switch {
	case q.Kind != e.Ref.Kind && !(isPod(q.Kind) && isPod(e.Ref.Kind)),
		q.Namespace != "" && q.Namespace != e.Ref.Namespace,
		q.Name != "" && q.Name != e.Ref.Name,
		q.UID != "" && e.Ref.UID != "" && q.UID != e.Ref.UID,
		e.At.Before(q.Since),
		e.Seq <= q.After && q.After > 0:
		return false
	}
	return true
}

func isPod(kind string) bool { return kind == "" || kind == "Pod" }

// Reader gives entries, oldest first.
type Reader interface{ Read(q Query) []Entry }

// Appender takes entries that were written elsewhere, keeping their time and speaker.
type Appender interface{ Append(entries []Entry) }
