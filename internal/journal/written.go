package journal

import "fmt"

// Written says that the store acknowledged a write of the Pod.
type Written struct {
	Verb        string `json:"verb"`                  // create, update, patch, delete
	Subresource string `json:"subresource,omitempty"` // status, binding, …
	User        string `json:"user"`                  // user name of the request
	Agent       string `json:"agent,omitempty"`       // first word of the User-Agent
	Revision    int64  `json:"revision"`              // etcd revision of the write
	Took        Took   `json:"took,omitempty"`
	// of Took, the store's part: from the final object to etcd's acknowledgement
	Stored Took `json:"stored,omitempty"`
	// Changed are the fields that the write changed, such as status.phase; at most MaxChanged.
	Changed []string `json:"changed,omitempty"`
}

// MaxChanged bounds Written.Changed.
const MaxChanged = 12

// Line prints the write.
func (f Written) Line() string {
	what := f.Verb
	if f.Subresource != "" {
		what += " " + f.Subresource
	}
	return fmt.Sprintf("%s by %s at revision %d", what, f.User, f.Revision)
}

// Deleting says that deletion of the Pod was requested, with which grace period.
type Deleting struct {
	User  string `json:"user"`
	Grace int64  `json:"graceSeconds"`
}

// Line prints the request.
func (f Deleting) Line() string {
	return fmt.Sprintf("deletion asked by %s, grace %ds", f.User, f.Grace)
}

// Removed says that the object was deleted from the store.
type Removed struct {
	Revision int64 `json:"revision,omitempty"`
	Stored   Took  `json:"stored,omitempty"` // the store's part
}

// Line prints the deletion.
func (f Removed) Line() string {
	return fmt.Sprintf("removed from the store at revision %d", f.Revision)
}

// EvictionRefused says that a PodDisruptionBudget refused an eviction.
type EvictionRefused struct {
	Budget  string `json:"budget"`
	Message string `json:"message"`
}

// Line prints the refusal.
func (f EvictionRefused) Line() string {
	return fmt.Sprintf("eviction refused by budget %s: %s", f.Budget, f.Message)
}
