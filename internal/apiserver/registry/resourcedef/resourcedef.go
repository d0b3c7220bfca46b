// Package resourcedef defines what a served resource is: its names, types, defaulting, validation,
// table columns and subresources, as one value.
//
// A group's directory (registry/<group>) exports Kind values; apiserver.Kinds lists them; package
// registry makes REST storage from them. The values do not depend on package registry.
package resourcedef

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// Kind defines one served resource. Its objects are the external v1 types, which are also the hub
// version (DESIGN D2).
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
	// Subresources returns further subresources by their names without the resource ("binding").
	// Status and scale are made from Types. It must not change d.Store. nil means none.
	Subresources func(Deps) map[string]rest.Storage
}

// Names are the short names and categories of kubectl.
type Names struct {
	Short      []string
	Categories []string
}

// Types are the constructors of a kind and the shape of its objects.
type Types struct {
	New        func() runtime.Object
	NewList    func() runtime.Object
	Namespaced bool
	HasStatus  bool             // has a status subresource; the main endpoint ignores Status
	NoGenerate bool             // metadata.generation is not kept (ConfigMap, Secret, Event, RBAC, …)
	EventTTL   uint64           // seconds after which a stored object expires; 0 means never
	Internal   schema.GroupKind // hub kind when it is another group's (events.k8s.io over core); empty otherwise
	KeepStatus bool             // a create keeps the status (Node)
	// ValidateMeta validates the metadata of a new object in place of the strategy and
	// Rules.ValidateName; nil for most kinds. The library's check that the name is a path segment
	// follows in any case.
	ValidateMeta func(obj runtime.Object) field.ErrorList
	// ResetFields are the fields that the main endpoint ignores beside status, StatusResetFields
	// those that the status endpoint ignores beside spec, as paths (metadata.labels): no field
	// manager owns what is sent there. With metadata in StatusResetFields the status endpoint also
	// keeps it as it was; other fields are kept by Rules.
	ResetFields, StatusResetFields []string
	// OtherVersions are further versions of the group through which this store is written.
	OtherVersions []string
}

// Rules are how a kind is written; package registry calls them from its strategy, in the order of
// upstream's. Any field may be nil. Rules are pure unless stated otherwise, and are called
// concurrently.
type Rules struct {
	Default        func(obj runtime.Object)                           // on decode, from requests and from storage
	PrepareCreate  func(ctx context.Context, obj runtime.Object)      // drop disabled fields; status is cleared already
	PrepareUpdate  func(ctx context.Context, obj, old runtime.Object) // keep what may not change; old is read-only
	Validate       func(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	ValidateStatus func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	// ValidateDeclaratively returns the errors of upstream's declarative validation (the +k8s: tags
	// of the kind's type) for creates, updates and status updates; old is nil for a create. The
	// strategy drops the errors marked alpha, which upstream only counts.
	ValidateDeclaratively func(ctx context.Context, op operation.Operation, obj, old runtime.Object) field.ErrorList
	// PrepareStatus is called for status updates, after everything but metadata and status was
	// kept.
	PrepareStatus func(ctx context.Context, obj, old runtime.Object)
	Warn          func(ctx context.Context, obj runtime.Object) []string
	// WarnUpdate returns the warnings of updates; nil means Warn.
	WarnUpdate func(ctx context.Context, obj, old runtime.Object) []string
	// ValidateName checks metadata.name, or generateName as a prefix; nil means DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// CheckGracefulDelete sets the grace period of a delete in options; false means delete at once.
	// nil means that the kind is never deleted gracefully.
	CheckGracefulDelete func(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool
	// Fields returns the selectable fields beyond metadata.name and metadata.namespace; nil means
	// none.
	Fields func(obj runtime.Object) fields.Set
	// IndexedField is the one of Fields that the watch cache indexes (spec.nodeName of Pods).
	IndexedField string
	// AllowCreateOnUpdate lets PUT create the object: upstream's choice for each kind.
	AllowCreateOnUpdate bool
	// AllowUnconditionalUpdate accepts PUT without a resourceVersion.
	AllowUnconditionalUpdate bool
	// BeginCreate and BeginUpdate are called before the strategy prepares the object and may
	// allocate (cluster IPs, node ports); they may have side effects and fail. finish, which may be
	// nil, is called once with whether the write succeeded. AfterDelete is called after a delete
	// that was not a dry run.
	BeginCreate func(ctx context.Context, obj runtime.Object, dryRun bool) (finish func(ok bool), err error)
	BeginUpdate func(ctx context.Context, obj, old runtime.Object, dryRun bool) (finish func(ok bool), err error)
	AfterDelete func(obj runtime.Object)
}

// Stored are rules of the main store that hold for every endpoint over it. Any field may be nil.
type Stored struct {
	// Canonicalize brings a valid object into the form that is stored.
	Canonicalize func(obj runtime.Object)
	// DeleteDuringUpdate reports whether an update of an object that is being deleted has removed
	// the last reason to keep it, so that it is deleted now. nil means that finalizers and the
	// grace period decide.
	DeleteDuringUpdate func(ctx context.Context, key string, obj, existing runtime.Object) bool
	// Wrap returns a storage around s that sees every read and write of stored objects.
	Wrap func(storage.Interface) storage.Interface
}

// Table is what `kubectl get` shows.
type Table struct {
	Columns []metav1.TableColumnDefinition
	// Row returns the cells of one object, one per column.
	Row func(obj runtime.Object, o RowOptions) []any
	// ListRow returns Row for the objects of a list, where cells depend on the other objects; nil
	// means Row.
	ListRow func(list runtime.Object) func(obj runtime.Object, o RowOptions) []any
	// Conditions returns the conditions of a row (Completed for a Pod that ended); nil means none.
	Conditions func(obj runtime.Object) []metav1.TableRowCondition
	// RowObject returns the object whose metadata a row carries; nil means the object itself.
	RowObject func(obj runtime.Object) runtime.Object
}

// RowOptions are the options of a row: Now is the time that ages are relative to.
type RowOptions struct{ Now metav1.Time }

// Deps is what the subresources of a kind may use.
type Deps struct {
	Store  rest.StandardStorage                              // the main store: Get, Create, Update, Delete, List, Watch
	Status rest.Storage                                      // the status endpoint, nil without one
	Lookup func(group, resource string) rest.StandardStorage // another kind's store; nil if not served
	// Extra is registry.Options.Extra: pods.Connections, for subresources that call kubelets.
	Extra any
}

// PartUpdate is an update that changes a part of an object by a rule of its own, such as the
// approval of a CertificateSigningRequest.
type PartUpdate struct {
	Name    string
	Info    rest.UpdatedObjectInfo
	Prepare func(obj, old runtime.Object) // copies from old what the endpoint may not change
	Create  rest.ValidateObjectFunc
	Update  rest.ValidateObjectUpdateFunc
	Options *metav1.UpdateOptions
}

// PartUpdater is implemented by Deps.Status. UpdatePart updates with u.Prepare in place of the
// status strategy's rule; ValidateStatus is called.
type PartUpdater interface {
	UpdatePart(ctx context.Context, u PartUpdate) (runtime.Object, error)
}

// ValidatePathSegmentName accepts any name that can be a path segment of a URL, as those of RBAC;
// with prefix, it checks a generateName.
func ValidatePathSegmentName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
