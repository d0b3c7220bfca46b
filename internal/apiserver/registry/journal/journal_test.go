package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
	facts "github.com/gantry-project/gantry/internal/journal"
)

// book is a journal that remembers what it was asked and given.
type book struct {
	holds    []facts.Entry
	asked    facts.Query
	appended []facts.Entry
}

// Read implements facts.Reader.
func (b *book) Read(q facts.Query) []facts.Entry {
	b.asked = q
	return b.holds
}

// Append implements facts.Appender.
func (b *book) Append(e []facts.Entry) { b.appended = append(b.appended, e...) }

func entry(namespace, name string) facts.Entry {
	return facts.Entry{At: time.Unix(1e9, 5).UTC(), By: "kubelet", Ref: facts.Ref{Kind: "Pod", Namespace: namespace,
		Name: name}, Fact: facts.Waiting{For: "a volume"}}
}

func TestRead(t *testing.T) {
	ctx := request.WithNamespace(t.Context(), "ns")
	b := &book{holds: []facts.Entry{entry("ns", "p")}}
	s := journal.New(b, b)
	out, err := s.Get(ctx, "p", &journal.PodJournalOptions{UID: "u", Kind: "Node", After: 3, Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	p := out.(*journal.PodJournal)
	if p.Name != "p" || p.Namespace != "ns" || len(p.Entries) != 1 {
		t.Errorf("got %+v, want one entry about ns/p", p)
	}
	want := facts.Query{Kind: "Node", Namespace: "ns", Name: "p", UID: "u", After: 3, Limit: 4}
	if b.asked != want {
		t.Errorf("asked %+v, want %+v", b.asked, want)
	}
	before := time.Now()
	if _, err := s.Get(ctx, "p", &journal.PodJournalOptions{SinceSeconds: 60}); err != nil {
		t.Fatal(err)
	}
	if d := before.Add(-time.Minute).Sub(b.asked.Since); d > 0 || -d > time.Hour {
		t.Errorf("since %v, want a minute before %v", b.asked.Since, before)
	}
	b.holds = nil
	for name, c := range map[string]struct {
		options runtime.Object
		failed  func(error) bool
	}{
		"nobody spoke of it": {&journal.PodJournalOptions{}, apierrors.IsNotFound},
		"nothing since": {&journal.PodJournalOptions{SinceSeconds: 1},
			func(err error) bool { return err == nil }},
		"nothing after": {&journal.PodJournalOptions{After: 1}, func(err error) bool { return err == nil }},
		"options of a stranger": {&metav1.GetOptions{}, func(err error) bool {
			return err != nil && err.Error() == "options of type *v1.GetOptions are not a podjournal's"
		}},
	} {
		if _, err := s.Get(ctx, "p", c.options); !c.failed(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAppend(t *testing.T) {
	ctx := request.WithNamespace(t.Context(), "ns")
	good := func() *journal.PodJournal {
		return &journal.PodJournal{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Entries: []facts.Entry{entry("ns",
			"p"),
			entry("ns", "q")}}
	}
	with := func(change func(*facts.Entry)) *journal.PodJournal {
		p := good()
		change(&p.Entries[1])
		return p
	}
	many := &journal.PodJournal{}
	for range 10_001 {
		many.Entries = append(many.Entries, entry("ns", "p"))
	}
	for name, c := range map[string]struct {
		obj  runtime.Object
		want string
	}{
		"another object": {&corev1.Pod{}, "object of type *v1.Pod is not a PodJournal"},
		"too many":       {many, "entries: 10001, at most 10000: send several batches"},
		"no fact":        {with(func(e *facts.Entry) { e.Fact = nil }), "entries[1].fact: required"},
		"another namespace": {with(func(e *facts.Entry) { e.Ref.Namespace = "x" }),
			`entries[1].ref.namespace: "x" is not ` +
				`the request's namespace "ns"`},
		"no name": {with(func(e *facts.Entry) { e.Ref.Name = "" }), "entries[1].ref.name: required"},
	} {
		b := &book{}
		if _, err := journal.New(b, b).Create(ctx, c.obj, nil, nil); err == nil || err.Error() != c.want ||
			len(b.appended) > 0 {
			t.Errorf("%s: got %v with %d entries kept, want %s", name, err, len(b.appended), c.want)
		}
	}
	if _, err := journal.New(&book{}, nil).Create(ctx, good(), nil, nil); !apierrors.IsMethodNotSupported(err) ||
		!strings.HasPrefix(err.Error(), "create is not supported") {
		t.Errorf("nobody to append to: got %v, want that it is not supported", err)
	}
	for name, c := range map[string]struct {
		validate func(context.Context, runtime.Object) error
		options  *metav1.CreateOptions
		kept     int
		err      string
	}{
		"plain":        {nil, nil, 2, ""},
		"admitted":     {func(context.Context, runtime.Object) error { return nil }, &metav1.CreateOptions{}, 2, ""},
		"not admitted": {func(context.Context, runtime.Object) error { return errors.New("no") }, nil, 0, "no"},
		"a dry run":    {nil, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, 0, ""},
	} {
		b := &book{}
		out, err := journal.New(b, b).Create(ctx, good(), c.validate, c.options)
		if fmt.Sprint(err) != c.err && (err != nil || c.err != "") || len(b.appended) != c.kept {
			t.Errorf("%s: got %v and %d entries, want %q and %d", name, err, len(b.appended), c.err, c.kept)
		}
		if p, ok := out.(*journal.PodJournal); err == nil && (!ok || p.Name != "batch" || p.Namespace != "ns" ||
			p.Entries != nil) {
			t.Errorf("%s: got %+v, want ns/batch without entries", name, out)
		}
	}
	if _, err := journal.New(&book{}, &book{}).Create(ctx, &journal.PodJournal{Entries: many.Entries[:10_000]}, nil,
		nil); err != nil {
		t.Errorf("as many as there may be: got %v, want none", err)
	}
}

func TestTable(t *testing.T) {
	s := journal.New(&book{}, nil)
	p := &journal.PodJournal{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Entries: []facts.Entry{entry("ns", "p")}}
	got, err := s.ConvertToTable(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, c.Name+" "+c.Type+" "+c.Description)
	}
	want := []string{"At string When the fact became true.", "By string Component that states it.",
		"Fact string What became true."}
	if len(columns) != 4 || !strings.HasPrefix(columns[0], "Name string ") || !slices.Equal(columns[1:], want) {
		t.Errorf("got columns %q, want Name and %q", columns, want)
	}
	cells := fmt.Sprint(got.Rows[0].Cells)
	if want := "[p 2001-09-09T01:46:40.000000005Z kubelet " + p.Entries[0].Fact.Line() + "]"; cells != want {
		t.Errorf("got cells %s, want %s", cells, want)
	}
	if m, ok := got.Rows[0].Object.Object.(*metav1.PartialObjectMetadata); !ok || m.Name != "p" {
		t.Errorf("got the row's object %+v, want the metadata of p", got.Rows[0].Object.Object)
	}
	if _, err := s.ConvertToTable(t.Context(), &corev1.Pod{}, nil); err == nil ||
		err.Error() != "a table is made of a PodJournal only" {
		t.Errorf("a table of a Pod: got %v, want a bad request", err)
	}
}

func TestDefinition(t *testing.T) {
	s := journal.New(&book{}, nil)
	options, sub, path := s.NewGetOptions()
	_, isOptions := options.(*journal.PodJournalOptions)
	if _, ok := s.New().(*journal.PodJournal); !ok || !isOptions || sub || path != "" || !s.NamespaceScoped() ||
		s.GetSingularName() != "podjournal" {
		t.Errorf("got %T, %T, %v, %q, %v, %q", s.New(), options, sub, path, s.NamespaceScoped(), s.GetSingularName())
	}
	defs := journal.Definitions(func(p string) spec.Ref { return spec.MustCreateRef("#/" + p) })
	raw, err := json.Marshal(defs["dev.gantry.journal.v1alpha1.PodJournal"].Schema)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"description":"PodJournal is what is known about one Pod: facts with their time and speaker, ` +
		`oldest ` +
		`first.","type":"object","required":["entries"],"properties":{"apiVersion":{"description":"APIVersion is ` +
		`journal.gantry.dev/v1alpha1.","type":"string"},"entries":{"description":"Entries are facts with their ` +
		`time and ` +
		`speaker, oldest ` +
		`first.","type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},` +
		`"kind":{"description":"Kind is PodJournal.","type":"string"},"metadata":{"default":{},` +
		`"$ref":"#/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	if d := defs["dev.gantry.journal.v1alpha1.PodJournal"].Dependencies; !slices.Equal(d,
		[]string{"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}) {
		t.Errorf("got dependencies %q, want ObjectMeta's", d)
	}
}

// The types in a scheme: options come from query strings, copies are others'.
func TestTypes(t *testing.T) {
	s := runtime.NewScheme()
	if err := journal.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"v1alpha1", runtime.APIVersionInternal} {
		gv := schema.GroupVersion{Group: "journal.gantry.dev", Version: v}
		if !s.Recognizes(gv.WithKind("PodJournal")) || !s.Recognizes(gv.WithKind("PodJournalOptions")) {
			t.Errorf("%s: the types are not known", v)
		}
	}
	if !s.IsVersionRegistered(journal.GroupVersion) || journal.Resource != "podjournals" {
		t.Errorf("got version registered %t and resource %q, want true and podjournals",
			s.IsVersionRegistered(journal.GroupVersion), journal.Resource)
	}
	for query, want := range map[string]string{
		"uid=u&kind=Node&after=3&limit=4&sinceSeconds=5": "u Node 3 4 5 <nil>",
		"":                                 "  0 0 0 <nil>",
		"after=x":                          `  0 0 0 strconv.ParseUint: parsing "x": invalid syntax`,
		"limit=x&sinceSeconds=1":           `  0 0 0 strconv.Atoi: parsing "x": invalid syntax`,
		"sinceSeconds=1x":                  `  0 0 0 strconv.ParseInt: parsing "1x": invalid syntax`,
		"after=0x10":                       `  0 0 0 strconv.ParseUint: parsing "0x10": invalid syntax`,
		"after=18446744073709551615":       "  18446744073709551615 0 0 <nil>",
		"sinceSeconds=9223372036854775807": "  0 0 9223372036854775807 <nil>",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var o journal.PodJournalOptions
		err = s.Convert(&values, &o, nil)
		if got := fmt.Sprintf("%s %s %d %d %d %v", o.UID, o.Kind, o.After, o.Limit, o.SinceSeconds, err); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	p := &journal.PodJournal{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Entries: []facts.Entry{entry("ns", "p")}}
	c := p.DeepCopyObject().(*journal.PodJournal)
	c.Labels["a"], c.Entries[0].By = "c", "other"
	if p.Labels["a"] != "b" || p.Entries[0].By != "kubelet" || len(c.Entries) != 1 {
		t.Errorf("a copy shares labels or entries: got label %q, entry by %q, %d entries of the copy, want b, "+
			"kubelet, 1",
			p.Labels["a"], p.Entries[0].By, len(c.Entries))
	}
	o := &journal.PodJournalOptions{UID: "u"}
	d := o.DeepCopyObject().(*journal.PodJournalOptions)
	if d.UID = "x"; o.UID != "u" {
		t.Errorf("a copy of options is the options: got %q, want \"u\"", o.UID)
	}
}
