// Package resourcedef is the row a served resource is: names, types, defaults, validation, columns,
// subresources.
//
// A kind's own directory (registry/<kind>) exports one or more rows; apiserver.Kinds lists them;
// the generic machinery in registry turns a row into REST storage. No row knows the machinery.
package resourcedef

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// Kind is one served resource. Object types are the external v1 types, which are the hub version
// too (DESIGN D2).
type Kind struct {
	Group    string // "" for core
	Version  string // v1
	Resource string // plural, lower case
	Singular string
	Kind     string
	Names    Names
	Types    Types
	Rules    Rules
	Stored   Stored
	Table    Table
	// Subresources makes further endpoints over the main store, by name without the resource
	// ("binding"). Status and scale are made from Types.
	Subresources func(Deps) map[string]rest.Storage
}

// Names are what clients may call it.
type Names struct {
	Short      []string
	Categories []string
}

// Types makes objects and says what shape they have.
type Types struct {
	New        func() runtime.Object
	NewList    func() runtime.Object
	Namespaced bool
	HasStatus  bool             // has a status subresource; Status is kept apart from the rest on writes
	NoGenerate bool             // metadata.generation is not kept (ConfigMap, Secret, Event, RBAC, …)
	EventTTL   uint64           // seconds a stored object lives; 0 means for ever
	Internal   schema.GroupKind // hub kind when it is another group's (events.k8s.io over core); empty otherwise
	KeepStatus bool             // the status given at creation is kept (Node)
	// ValidateMeta judges the metadata of a new object in place of Rules.ValidateName and the
	// machinery; nil for most kinds. The library's own rule, which wants a segment of a path for a
	// name, is asked after all others in any case.
	ValidateMeta func(obj runtime.Object) field.ErrorList
}

// Rules are the decisions about a write. All are pure: any field may be nil.
type Rules struct {
	Default        func(obj runtime.Object)                           // on decode, from requests and from storage
	PrepareCreate  func(ctx context.Context, obj runtime.Object)      // drop status and disabled fields, set generation
	PrepareUpdate  func(ctx context.Context, obj, old runtime.Object) // keep what may not change, bump generation
	Validate       func(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	ValidateStatus func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	// after the machinery has kept everything but status
	PrepareStatus func(ctx context.Context, obj, old runtime.Object)
	Warn          func(ctx context.Context, obj runtime.Object) []string
	// ValidateName checks metadata.name; nil means DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// CheckGracefulDelete fills in the grace period of a delete; false means delete at once. nil
	// means never graceful.
	CheckGracefulDelete func(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool
	// Fields are the selectable fields beyond metadata.name and metadata.namespace; nil means none.
	Fields func(obj runtime.Object) fields.Set
	// IndexedField names one of Fields that watchers and lists are indexed by (spec.nodeName).
	IndexedField string
	// AllowCreateOnUpdate lets PUT make the object (Lease, EndpointSlice: no; ConfigMap: no;
	// upstream's choice per kind).
	AllowCreateOnUpdate bool
	// AllowUnconditionalUpdate lets PUT without a resourceVersion through.
	AllowUnconditionalUpdate bool
	// Begin* hooks run around the store write and may hold resources (cluster addresses); finish
	// tells whether the write succeeded. genericregistry.Store calls them before the strategy
	// prepares: a Service is completed there, and that must stay first.
	BeginCreate func(ctx context.Context, obj runtime.Object, dryRun bool) (finish func(ok bool), err error)
	BeginUpdate func(ctx context.Context, obj, old runtime.Object, dryRun bool) (finish func(ok bool), err error)
	AfterDelete func(obj runtime.Object)
}

// Stored are rules of the main store that hold for every endpoint over it. Any field may be nil.
type Stored struct {
	// DeleteDuringUpdate says that an update leaves an object that is being deleted with nothing to
	// hold it, so that it goes. nil means that metadata.finalizers and the grace period decide.
	DeleteDuringUpdate func(ctx context.Context, key string, obj, existing runtime.Object) bool
	// Wrap puts a rule around every read and write of stored objects.
	Wrap func(storage.Interface) storage.Interface
}

// Table is what `kubectl get` shows.
type Table struct {
	Columns []metav1.TableColumnDefinition
	// Row returns the cells of one object, one per column.
	Row func(obj runtime.Object, o RowOptions) []any
	// ListRow is Row for the objects of a list, whose cells depend on the others; nil means Row.
	ListRow func(list runtime.Object) func(obj runtime.Object, o RowOptions) []any
	// Conditions mark a row (a Pod that ended); nil means none.
	Conditions func(obj runtime.Object) []metav1.TableRowCondition
	// RowObject is the object a row carries, of which clients see the metadata; nil means the
	// object itself.
	RowObject func(obj runtime.Object) runtime.Object
}

// RowOptions tell how to print a row.
type RowOptions struct{ Now metav1.Time }

// Deps is what subresources of a kind may use.
type Deps struct {
	Store  rest.StandardStorage                              // the main store: Get, Create, Update, Delete, List, Watch
	Status rest.Storage                                      // the status endpoint, nil without one
	Lookup func(group, resource string) rest.StandardStorage // another kind's store; nil when not served
	// apiserver.Connections: how to reach kubelets; see apiserver
	Extra any
}

// PartUpdate is an update that changes a part of an object by a rule of its own, as an approval
// does.
type PartUpdate struct {
	Name    string
	Info    rest.UpdatedObjectInfo
	Prepare func(obj, old runtime.Object) // keeps of old what the endpoint may not change
	Create  rest.ValidateObjectFunc
	Update  rest.ValidateObjectUpdateFunc
	Options *metav1.UpdateOptions
}

// PartUpdater is what Deps.Status also is: it writes with Prepare in place of the status rule.
// Metadata is checked, ValidateStatus is asked.
type PartUpdater interface {
	UpdatePart(ctx context.Context, u PartUpdate) (runtime.Object, error)
}

// ValidatePathSegmentName checks a name that may be any segment of a URL's path, as those of RBAC
// are; a prefix for a generated name is checked as one.
func ValidatePathSegmentName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
