package journal

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/journal"
)

// maxBatch bounds the entries one request may append.
const maxBatch = 10_000

// Storage serves podjournals from a journal.
type Storage struct {
	reader   journal.Reader
	appender journal.Appender
}

var (
	_ rest.GetterWithOptions    = &Storage{}
	_ rest.Creater              = &Storage{}
	_ rest.Scoper               = &Storage{}
	_ rest.SingularNameProvider = &Storage{}
	_ rest.TableConvertor       = &Storage{}
)

// New makes the storage; a nil appender refuses batches.
func New(r journal.Reader, a journal.Appender) *Storage { return &Storage{reader: r, appender: a} }

// New is an empty object.
func (s *Storage) New() runtime.Object { return &PodJournal{} }

// Destroy has nothing to free.
func (s *Storage) Destroy() {}

// NamespaceScoped says that journals lie in their Pod's namespace.
func (s *Storage) NamespaceScoped() bool { return true }

// GetSingularName is what one is called.
func (s *Storage) GetSingularName() string { return "podjournal" }

// NewGetOptions are the options of a read; none of them is a path.
func (s *Storage) NewGetOptions() (runtime.Object, bool, string) {
	return &PodJournalOptions{}, false, ""
}

// Get reads the entries about a name. A name nobody spoke of is not found.
func (s *Storage) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*PodJournalOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("options of type %T are not a podjournal's", options))
	}
	ns := request.NamespaceValue(ctx)
	entries := s.reader.Read(o.query(ns, name, time.Now()))
	if len(entries) == 0 && o.After == 0 && o.SinceSeconds == 0 {
		return nil, apierrors.NewNotFound(GroupVersion.WithResource(Resource).GroupResource(), name)
	}
	return &PodJournal{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}, Entries: entries}, nil
}

// Create appends a batch of entries about objects of the request's namespace.
func (s *Storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	in, ok := obj.(*PodJournal)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("object of type %T is not a PodJournal", obj))
	}
	if s.appender == nil {
		return nil, apierrors.NewMethodNotSupported(GroupVersion.WithResource(Resource).GroupResource(), "create")
	}
	if len(in.Entries) > maxBatch {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("entries: %d, at most %d: send several batches",
			len(in.Entries), maxBatch))
	}
	ns := request.NamespaceValue(ctx)
	for i := range in.Entries {
		e := &in.Entries[i]
		switch {
		case e.Fact == nil:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("entries[%d].fact: required", i))
		case e.Ref.Namespace != ns:
			return nil, apierrors.NewBadRequest(
				fmt.Sprintf("entries[%d].ref.namespace: %q is not the request's namespace %q", i, e.Ref.Namespace, ns))
		case e.Ref.Name == "":
			return nil, apierrors.NewBadRequest(fmt.Sprintf("entries[%d].ref.name: required", i))
		}
	}
	if validate != nil {
		if err := validate(ctx, in); err != nil {
			return nil, err
		}
	}
	if o == nil || len(o.DryRun) == 0 {
		s.appender.Append(in.Entries)
	}
	return &PodJournal{ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: ns}}, nil
}

// ConvertToTable prints one line per entry.
func (s *Storage) ConvertToTable(_ context.Context, obj, _ runtime.Object) (*metav1.Table, error) {
	p, ok := obj.(*PodJournal)
	if !ok {
		return nil, apierrors.NewBadRequest("a table is made of a PodJournal only")
	}
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("At", "When the fact became true."),
		printers.StringColumn("By", "Component that states it."), printers.StringColumn("Fact", "What became true."),
	}}
	for _, e := range p.Entries {
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells:  []any{p.Name, e.At.UTC().Format(time.RFC3339Nano), e.By, e.Fact.Line()},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}},
		})
	}
	return t, nil
}
