package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Limits of the tokens a driver may ask for, in seconds, and of how often it may change what a node
// can attach.
const (
	minTokenSeconds = 10 * 60
	maxTokenSeconds = 1 << 32
	maxRepublishes  = 10
)

func csiDrivers() resourcedef.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	k := newKind("csidrivers", "CSIDriver", typed.NewTypes[storagev1.CSIDriver, storagev1.CSIDriverList]())
	k.Rules = typed.Rules[storagev1.CSIDriver]{Default: defaultDriver, Validate: checkDriver, Warn: warnDriver,
		PrepareForUpdate: countDriverSpec}.Untyped()
	k.Rules.WarnUpdate = func(_ context.Context, o, old runtime.Object) []string {
		d, previous := o.(*storagev1.CSIDriver), old.(*storagev1.CSIDriver)
		if apiequality.Semantic.DeepEqual(d.Spec.TokenRequests, previous.Spec.TokenRequests) {
			return nil
		}
		return warnDriver(d)
	}
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), boolean("AttachRequired", doc["attachRequired"]),
			boolean("PodInfoOnMount", doc["podInfoOnMount"]),
			boolean("StorageCapacity", doc["storageCapacity"]),
			printers.StringColumn("TokenRequests", doc["tokenRequests"]),
			boolean("RequiresRepublish", doc["requiresRepublish"]),
			printers.StringColumn("Modes", doc["volumeLifecycleModes"]), printers.AgeColumn(),
		},
		Row: typed.RowFunc(driverRow),
	}
	return k
}

func defaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	typed.SetDefault(&s.AttachRequired, true)
	typed.SetDefault(&s.PodInfoOnMount, false)
	typed.SetDefault(&s.StorageCapacity, false)
	typed.SetDefault(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	typed.SetDefault(&s.RequiresRepublish, false)
	typed.SetDefault(&s.SELinuxMount, false)
	typed.SetDefault(&s.PreventPodSchedulingIfMissing, false)
}

// countDriverSpec counts the changes of the spec; a new driver has no generation yet.
func countDriverSpec(d, previous *storagev1.CSIDriver) {
	if !apiequality.Semantic.DeepEqual(d.Spec, previous.Spec) {
		d.Generation = previous.Generation + 1
	}
}

func warnDriver(d *storagev1.CSIDriver) []string {
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to " +
		"prevent possible logging of tokens in volume attributes"}
}

func driverRow(d *storagev1.CSIDriver, o resourcedef.RowOptions) []any {
	var modes, tokens []string
	for _, m := range d.Spec.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	for _, t := range d.Spec.TokenRequests {
		tokens = append(tokens, t.Audience)
	}
	orUnset := func(l []string, unset string) string {
		if len(l) == 0 {
			return unset
		}
		return strings.Join(l, ",")
	}
	attach := d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
	return []any{
		d.Name, attach, typed.Deref(d.Spec.PodInfoOnMount), typed.Deref(d.Spec.StorageCapacity),
		orUnset(tokens, "<unset>"), typed.Deref(d.Spec.RequiresRepublish), orUnset(modes, "<none>"),
		printers.TimestampSince(d.CreationTimestamp, o.Now),
	}
}

func checkDriver(d, previous *storagev1.CSIDriver) field.ErrorList {
	var f typed.Errors
	s := &d.Spec
	if previous == nil {
		const longest = 63
		if len(d.Name) > longest && len(d.Name) <= validation.DNS1123SubdomainMaxLength {
			f.Add(field.TooLong(field.NewPath("metadata", "name"), d.Name, longest))
		}
	}
	if p := s.FSGroupPolicy; p != nil {
		typed.Supported(&f, spec().Child("fsGroupPolicy"), *p, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy,
			storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	checkTokens(&f, s.TokenRequests)
	for _, m := range s.VolumeLifecycleModes {
		typed.Supported(&f, spec().Child("volumeLifecycleModes"), m, storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < maxRepublishes {
		f.Invalid(spec().Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds")
	}
	if b := s.ServiceAccountTokenInSecrets; b != nil && len(s.TokenRequests) == 0 {
		f.Invalid(spec().Child("serviceAccountTokenInSecrets"), *b,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	if previous != nil {
		f.Immutable(spec().Child("attachedRequired"), s.AttachRequired, previous.Spec.AttachRequired)
		f.Immutable(spec().Child("volumeLifecycleModes"), s.VolumeLifecycleModes, previous.Spec.VolumeLifecycleModes)
	}
	return f.List()
}

func checkTokens(f *typed.Errors, list []storagev1.TokenRequest) {
	path, seen := spec().Child("tokenRequests"), sets.New[string]()
	for i, t := range list {
		if seen.Has(t.Audience) {
			f.Add(field.Duplicate(path.Index(i).Child("audience"), t.Audience))
		}
		seen.Insert(t.Audience)
		if n := t.ExpirationSeconds; n != nil && *n < minTokenSeconds {
			f.Invalid(path.Index(i).Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes")
		} else if n != nil && *n > maxTokenSeconds {
			f.Invalid(path.Index(i).Child("expirationSeconds"), *n,
				"may not specify a duration larger than 2^32 seconds")
		}
	}
}

func csiNodes() resourcedef.Kind {
	k := newKind("csinodes", "CSINode", typed.NewTypes[storagev1.CSINode, storagev1.CSINodeList]())
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[storagev1.CSINode]{
		// The health of a node's storage is behind a gate that is off by default: the status
		// endpoint keeps what is stored.
		PrepareForStatusUpdate: func(n, previous *storagev1.CSINode) { n.Status = previous.Status },
		Validate:               checkNode,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.IntColumn("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
			printers.AgeColumn()},
		Row: typed.RowFunc(func(n *storagev1.CSINode, o resourcedef.RowOptions) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), printers.TimestampSince(n.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkNode(n, previous *storagev1.CSINode) field.ErrorList {
	var f typed.Errors
	path, seen := spec().Child("drivers"), sets.New[string]()
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], path.Index(i)
		f.Add(podspec.ValidateDriverName(d.Name, at.Child("name"))...)
		checkNodeDriver(&f, d, at)
		if seen.Has(d.Name) {
			f.Add(field.Duplicate(at.Child("name"), d.Name))
		}
		seen.Insert(d.Name)
	}
	if previous == nil {
		return f.List()
	}
	for _, old := range previous.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == old.Name {
				now.Allocatable, old.Allocatable = nil, nil // drivers may tell at any time how much a node can attach
				f.ImmutableGoFields(path, now, old)
			}
		}
	}
	return f.List()
}

func checkNodeDriver(f *typed.Errors, d *storagev1.CSINodeDriver, at *field.Path) {
	const longest = 256
	switch {
	case d.NodeID == "":
		f.Required(at.Child("nodeID"), "")
	case len(d.NodeID) > longest:
		f.Invalid(at.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", longest))
	}
	if a := d.Allocatable; a != nil {
		f.NotNegativeIf(at.Child("allocatable", "count"), a.Count)
	}
	keys := sets.New[string]()
	for _, k := range d.TopologyKeys {
		if k == "" {
			f.Required(at, "")
		}
		if keys.Has(k) {
			f.Add(field.Duplicate(at, k))
		}
		keys.Insert(k)
		f.InvalidEach(at, k, validation.IsQualifiedName(k))
	}
}

func csiStorageCapacities() resourcedef.Kind {
	k := newKind("csistoragecapacities", "CSIStorageCapacity", typed.NewNamespacedTypes[storagev1.CSIStorageCapacity,
		storagev1.CSIStorageCapacityList]())
	k.Rules = typed.Rules[storagev1.CSIStorageCapacity]{Validate: checkCapacity, Warn: warnCapacity}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.CreatedAtColumn()},
		Row: typed.RowFunc(func(c *storagev1.CSIStorageCapacity, _ resourcedef.RowOptions) []any {
			return []any{c.Name, printers.TimestampCell(c.CreationTimestamp)}
		}),
	}
	return k
}

// warnCapacity tells of deprecated labels in nodeTopology.
func warnCapacity(c *storagev1.CSIStorageCapacity) []string {
	if c.NodeTopology == nil {
		return nil
	}
	var out []string
	for i, e := range c.NodeTopology.MatchExpressions {
		if text := podspec.DeprecatedNodeLabel(e.Key); text != "" {
			out = append(out, fmt.Sprintf("nodeTopology.matchExpressions[%d].key: %s is %s", i, e.Key, text))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if text := podspec.DeprecatedNodeLabel(k); text != "" {
			out = append(out, "nodeTopology.matchLabels."+k+": "+text)
		}
	}
	return out
}

func checkCapacity(c, previous *storagev1.CSIStorageCapacity) field.ErrorList {
	var f typed.Errors
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	f.LabelSelector(topology, c.NodeTopology)
	f.DNSSubdomain(class, c.StorageClassName)
	if q := c.Capacity; q != nil && q.Sign() < 0 {
		f.Invalid(field.NewPath("capacity"), q.String(), "must be greater than or equal to 0")
	}
	if previous != nil {
		f.Immutable(topology, c.NodeTopology, previous.NodeTopology)
		f.Immutable(class, c.StorageClassName, previous.StorageClassName)
	}
	return f.List()
}
