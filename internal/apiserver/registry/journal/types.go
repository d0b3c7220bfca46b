// Package journal serves what the journal holds about an object: journal.gantry.dev/v1alpha1
// podjournals, under RBAC like any resource.
//
// GET by the Pod's name answers with its entries, oldest first, also after the Pod is gone;
// POST takes entries of remote components. JSON only: nothing here is kept in etcd.
// In: the journal's Reader and Appender. Out: a storage for the API server.
package journal

import (
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/journal"
)

// GroupVersion is where podjournals are served.
var GroupVersion = schema.GroupVersion{Group: "journal.gantry.dev", Version: "v1alpha1"}

// Resource is the plural name.
const Resource = "podjournals"

// PodJournal is what is known about one Pod, or a batch of entries on their way in.
type PodJournal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Entries are facts with their time and component, oldest first.
	Entries []journal.Entry `json:"entries"`
}

// PodJournalOptions choose entries.
type PodJournalOptions struct {
	metav1.TypeMeta `json:",inline"`

	UID          string `json:"uid,omitempty"`          // one life of the name; empty means all
	Kind         string `json:"kind,omitempty"`         // kind of the object; empty means Pod
	After        uint64 `json:"after,omitempty"`        // entries with a greater position only
	Limit        int    `json:"limit,omitempty"`        // this many of the newest; 0 means all
	SinceSeconds int64  `json:"sinceSeconds,omitempty"` // not older
}

// DeepCopyObject copies the object; facts are values and stay shared.
func (p *PodJournal) DeepCopyObject() runtime.Object {
	out := *p
	out.ObjectMeta = *p.ObjectMeta.DeepCopy()
	out.Entries = append([]journal.Entry(nil), p.Entries...)
	return &out
}

// DeepCopyObject copies the options.
func (o *PodJournalOptions) DeepCopyObject() runtime.Object {
	out := *o
	return &out
}

// OpenAPIModelName is the name in OpenAPI documents.
func (PodJournal) OpenAPIModelName() string { return "dev.gantry.journal.v1alpha1.PodJournal" }

// AddToScheme registers the types, which are their own hub, and reads options from query strings.
func AddToScheme(s *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: GroupVersion.Group, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{GroupVersion, internal} {
		s.AddKnownTypes(gv, &PodJournal{}, &PodJournalOptions{})
	}
	metav1.AddToGroupVersion(s, GroupVersion)
	return s.AddConversionFunc((*url.Values)(nil), (*PodJournalOptions)(nil), func(a, b any, _ conversion.Scope) error {
		return b.(*PodJournalOptions).read(*a.(*url.Values))
	})
}

func (o *PodJournalOptions) read(q url.Values) (err error) {
	o.UID, o.Kind = q.Get("uid"), q.Get("kind")
	if v := q.Get("after"); v != "" && err == nil {
		o.After, err = strconv.ParseUint(v, 10, 64)
	}
	if v := q.Get("limit"); v != "" && err == nil {
		o.Limit, err = strconv.Atoi(v)
	}
	if v := q.Get("sinceSeconds"); v != "" && err == nil {
		o.SinceSeconds, err = strconv.ParseInt(v, 10, 64)
	}
	return err
}

// query is what the options ask the journal.
func (o *PodJournalOptions) query(namespace, name string, now time.Time) journal.Query {
	q := journal.Query{Kind: o.Kind, Namespace: namespace, Name: name, UID: o.UID, After: o.After, Limit: o.Limit}
	if o.SinceSeconds > 0 {
		q.Since = now.Add(-time.Duration(o.SinceSeconds) * time.Second)
	}
	return q
}
